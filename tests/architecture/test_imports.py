"""Dependencies run one way, grants to addons to proxy, and the core does no I/O: read from the imports themselves."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("grants", "addons", "proxy")
MODULE_LINES = 350

NO_IO = {"aiohttp", "asyncio", "mitmproxy", "os", "pathlib", "socket", "ssl", "subprocess", "threading", "time"}
FORBIDDEN = {
    "grants": NO_IO | {"addons", "proxy", "click", "httptools"},
    "addons": {"proxy", "aiohttp", "click"},
    "proxy": {"tests"},
}


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def every_module() -> list[object]:
    return [
        pytest.param(package, path, id=str(path.relative_to(ROOT))) for package in PACKAGES for path in modules(package)
    ]


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, *, everywhere: bool = True) -> Iterator[str]:
    """Dotted names that a module imports; only at import time unless `everywhere`."""
    name = dotted(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    pending: list[ast.AST] = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, base]) if base else ".".join(parent)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        deferred = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        typing_only = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if everywhere or not (deferred or typing_only):
            pending += ast.iter_child_nodes(node)


@pytest.mark.parametrize(("package", "path"), every_module())
def test_imports_run_one_way(package: str, path: Path) -> None:
    """A module imports nothing that its package must not know, not even inside a function."""
    tops = {name.partition(".")[0] for name in imported(path)}
    assert not tops & FORBIDDEN[package]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_cycle(package: str) -> None:
    """Within a package, modules can be put in an order in which each imports only earlier ones."""
    names = {dotted(path) for path in modules(package)}
    graph = {
        dotted(path): {name for name in imported(path, everywhere=False) if name in names} - {dotted(path)}
        for path in modules(package)
        if path.name != "__init__.py"
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize(("package", "path"), every_module())
def test_modules_are_short(package: str, path: Path) -> None:
    """One concept a module."""
    assert len(path.read_text().splitlines()) <= MODULE_LINES


@pytest.mark.parametrize(("package", "path"), every_module())
def test_a_module_says_what_it_is(package: str, path: Path) -> None:
    """A module opens with its strategy."""
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize(("package", "path"), every_module())
def test_no_name_from_the_client_is_trusted(package: str, path: Path) -> None:
    """`pretty_host` and `pretty_url` are what a client claims; nothing decides by them."""
    text = path.read_text()
    assert "pretty_host" not in text
    assert "pretty_url" not in text


@pytest.mark.parametrize(("package", "path"), every_module())
def test_tasks_are_kept(package: str, path: Path) -> None:
    """Tasks are started in one place, which keeps them and reports what they raise."""
    if path != ROOT / "proxy" / "tasks.py":
        calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}
        assert not calls & {"asyncio.create_task", "asyncio.ensure_future"}


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["check", "--help"], id="check-help"),
        pytest.param(["check", "GRANT"], id="check"),
        pytest.param(["explain", "GRANT", "GET", "/repos/acme/widgets"], id="explain"),
        pytest.param(["--help"], id="help"),
    ],
)
def test_light_commands_stay_light(arguments: list[str]) -> None:
    """`check` and `explain` load neither mitmproxy nor the admin server: they answer in an eye's blink."""
    grant = str(ROOT / "tests" / "conformance" / "grants" / "main.yaml")
    words = [grant if word == "GRANT" else word for word in arguments]
    program = (
        "import sys\n"
        "from proxy.cli import main\n"
        "try:\n"
        f"    main({words!r})\n"
        "except SystemExit as ended:\n"
        "    code = ended.code\n"
        "heavy = {'mitmproxy', 'aiohttp', 'OpenSSL', 'rich.console'} & set(sys.modules)\n"
        "sys.exit(f'{heavy} {code}' if heavy or code not in (0, None) else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mitmproxy_opens_no_connection() -> None:
    """What accepts, dials and relays in mitmproxy is not even loaded ("mitmproxy dials nothing" in SECURITY.md)."""
    code = "import sys, proxy.program, proxy.cli.serve; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(found.stdout.split())
    assert "mitmproxy.proxy.layer" in loaded
    assert not {"mitmproxy.proxy.server", "mitmproxy.proxy.mode_servers", "mitmproxy.addons.proxyserver"} & loaded
