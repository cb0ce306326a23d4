"""The notebook's outputs are those that its cells have. `MILLSTREAM_UPDATE=1` writes them anew."""

import ast
import json
import os
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples/python"


def value_of(source, names):
    """Runs a cell, and returns the text of its last expression."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
    return None if value is None else repr(value)


def test_the_notebook_shows_what_its_cells_give(monkeypatch):
    monkeypatch.chdir(FOLDER)
    file, names, number = FOLDER / "tour.ipynb", {}, 0
    notebook = json.loads(file.read_text())
    for k, cell in enumerate(notebook["cells"]):
        # Formats of today's version give each cell a name.
        cell["id"] = f"cell-{k}"
        if cell["cell_type"] == "code":
            number += 1
            cell["execution_count"] = number
            text = value_of("".join(cell["source"]), names)
            cell["outputs"] = [] if text is None else [{
                "data": {"text/plain": text.splitlines(True)}, "execution_count": number,
                "metadata": {}, "output_type": "execute_result",
            }]
    made = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("MILLSTREAM_UPDATE"):
        file.write_text(made)
    assert made == file.read_text()
