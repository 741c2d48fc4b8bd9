"""Execute `.pte` files in a process of its own: where ExecuTorch's runtime aborts, it takes its process along."""

import atexit
import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SECONDS = 60
"""A program that runs longer than that is taken for one that hangs."""

_process: "subprocess.Popen[bytes] | None" = None


def failure(pte: bytes, inputs: list[Any]) -> str:
    """Why the runtime of the installed ExecuTorch does not execute a program; empty where it does."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "program")
        file.write_bytes(pickle.dumps((pte, [_plain(value) for value in inputs])))
        process = _started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(f"{file}\n".encode())
            process.stdin.flush()
            answer = process.stdout.readline().decode()
        except BrokenPipeError:
            answer = ""
        if not answer:
            _stop()
            return "ExecuTorch's runtime aborts on it"
        return answer.strip().removeprefix("ok")


def _plain(value: Any) -> Any:
    """A tensor as its dtype and shape, of zeros; anything else as it is."""
    return (str(value.dtype).removeprefix("torch."), list(value.shape)) if hasattr(value, "dtype") else value


def _started() -> "subprocess.Popen[bytes]":
    global _process
    if _process is None or _process.poll() is not None:
        _process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        atexit.register(_stop)
    return _process


def _stop() -> None:
    global _process
    if _process is not None:
        _process.kill()
        _process.wait()
        for pipe in (_process.stdin, _process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        _process = None


def _serve() -> None:
    """Execute the programs whose paths come line by line; answer each with ``ok`` or what went wrong."""
    import signal

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the runtime prints
    import torch
    from executorch.runtime import Runtime

    with contextlib.suppress(ImportError):
        import executorch.kernels.quantized  # noqa: F401  (registers kernels)
    for line in sys.stdin:
        pte, inputs = pickle.loads(Path(line.strip()).read_bytes())
        values = [torch.zeros(v[1], dtype=getattr(torch, v[0])) if isinstance(v, tuple) else v for v in inputs]
        signal.alarm(SECONDS)
        try:
            Runtime.get().load_program(pte).load_method("forward").execute(values)
            answer = "ok"
        except Exception as error:
            answer = f"ExecuTorch's runtime does not execute it: {' '.join(str(error).split())[:200]}"
        signal.alarm(0)
        print(answer, file=answers, flush=True)


if __name__ == "__main__":
    sys.path.pop(0)  # this file's folder, whose modules are not meant to be found by their bare names
    _serve()
