"""Let programs that return ``torch.return_types``, such as that of ``max`` with a dimension, be written to a file.

torch tells its pytrees how to take these apart, but not what to call them in a file: ``to_executorch`` and
``torch.export.save`` die on a model that returns one.
"""

from functools import lru_cache

import torch
from torch.utils import _pytree


@lru_cache(maxsize=1)
def name_return_types() -> None:
    """Give each of them that torch has left without a name the one that it has in Python; done once."""
    for kind in getattr(torch.return_types, "all_return_types", ()):
        known = _pytree.SUPPORTED_SERIALIZED_TYPES.get(kind)
        if known is not None and known.serialized_type_name == _pytree.NO_SERIALIZED_TYPE_NAME_FOUND:
            name = f"torch.return_types.{kind.__name__}"
            _pytree.SUPPORTED_SERIALIZED_TYPES[kind] = known._replace(serialized_type_name=name)
            _pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = kind
