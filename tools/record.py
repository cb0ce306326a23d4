"""Records a PyTorch program, as the package in ../python does, without an install:

    python tools/record.py program.py:prepare my_case

docs/record.md has the rest.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

from millstream.recorder.recorder import *  # noqa: E402, F403
from millstream.recorder.recorder import main  # noqa: E402

if __name__ == "__main__":
    main()
