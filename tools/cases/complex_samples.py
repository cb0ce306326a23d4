"""Samples of PyTorch's own test data with complex numbers, one or two for each of a fixed list of
ops, as op_samples has them for real numbers."""

import pathlib

import op_samples
import torch

OPS = (pathlib.Path(__file__).parent / "complex_samples.txt").read_text().split()


def prepare():
    return op_samples.prepare(OPS, torch.complex64)
