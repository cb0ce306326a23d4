"""Fixtures."""

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current folder, and the same random numbers in each test."""
    import torch

    torch.manual_seed(1)
    monkeypatch.chdir(tmp_path)
    return tmp_path
