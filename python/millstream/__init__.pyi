from ._native import Tensor as Tensor
from .checking import check_streams as check_streams
from .commands import MillstreamError as MillstreamError, RaceError as RaceError
from .commands import Undecided as Undecided
from .commands import compare as compare, coverage as coverage, replay as replay, run as run
from .commands import simulate as simulate, verify as verify, what_if as what_if
from .pages import memory as memory, profile as profile
from .recorder import RecordError as RecordError, RecordWarning as RecordWarning
from .recorder import record as record, record_call as record_call
from .recorder import streams as streams, trace as trace
from .rows import Rows as Rows
