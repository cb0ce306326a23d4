"""Generates reference values with PyTorch: python tools/reference/make.py [FAMILY...]. Without
names, generates all families."""

import importlib
import pathlib
import sys

folder = pathlib.Path(__file__).parent / "families"
names = sys.argv[1:] or sorted(p.stem for p in folder.glob("*.py"))
for name in names:
    importlib.import_module(f"families.{name}")
