"""`import torch` means weft: `weft.as_torch()` and `weft run`, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path


def run(
    program: str, *arguments: str, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments, *(() if arguments else ("-c", textwrap.dedent(program)))],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
    )


def output_of(program: str) -> str:
    done = run("import weft\ntorch = weft.as_torch()\n" + textwrap.dedent(program))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_names_are_wefts_own() -> None:
    assert (
        output_of(
            """
            import torch.nn.functional as F
            from torch import nn, optim
            from torch.utils.data import DataLoader
            import torch as again
            print(again is torch, nn.Linear is weft.nn.Linear, F.relu is weft.nn.functional.relu)
            print(torch.Tensor is weft.Tensor, optim.Adam is weft.optim.Adam)
            """
        )
        == "True True True\nTrue True\n"
    )


def test_what_pytorch_says_about_itself() -> None:
    assert (
        output_of(
            """
            @torch.compile
            def double(x): return 2 * x
            @torch.compile(mode="reduce-overhead")
            def triple(x): return 3 * x
            @torch.jit.script
            def same(x): return x
            print(double(1), triple(1), same(1), torch.cuda.is_available())
            torch.backends.cudnn.benchmark = True
            print(torch.__version__ >= "2.0", torch.__version__ > "10.0", torch.version.cuda)
            """
        )
        == "2 3 1 False\nTrue False None\n"
    )


def test_a_missing_name_says_where_and_what_is_near() -> None:
    text = output_of(
        """
        print(hasattr(torch, "lingspace"))
        for program in ("torch.lingspace", "from torch import lingspace", "import torch.nm"):
            try:
                exec(compile(program, "user.py", "exec"))
            except (AttributeError, ImportError) as error:
                print(type(error).__name__, error)
        """
    )
    lines = text.splitlines()
    assert lines[0] == "False"
    assert lines[1].startswith("AttributeError torch.lingspace is not in weft")
    assert "(user.py:1)" in lines[1] and "torch.linspace" in lines[1]
    assert lines[2].startswith("ImportError torch.lingspace is not in weft")
    assert lines[3].startswith("ModuleNotFoundError No module named 'torch.nm' in weft")
    assert "user.py:1" in lines[3]


def test_a_torch_that_is_already_there_is_not_replaced() -> None:
    done = run(
        """
        import sys, types
        sys.modules["torch"] = types.ModuleType("torch")
        import weft
        weft.as_torch()
        """
    )
    assert done.returncode == 1
    assert "already been imported" in done.stderr


def test_running_a_script(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("import torch\nvalue = torch.ones(2).sum()\n")
    (tmp_path / "script.py").write_text(
        "import sys, torch, helper\nprint(sys.argv[1:], helper.value, __name__)\nsys.exit(3)\n"
    )
    done = run("", "-m", "weft", "run", str(tmp_path / "script.py"), "--lr", "1")
    assert done.stdout == "['--lr', '1'] tensor(2.) __main__\n"
    assert done.returncode == 3
    missing = run("", "-m", "weft", "run", "no_such_file.py")
    assert "there is no file 'no_such_file.py'" in missing.stderr
