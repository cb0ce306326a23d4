"""The former name of Millstream's recorder, which is a part of the package `millstream`."""

from millstream.recorder import RecordError, RecordWarning, record, record_call, streams, trace

__all__ = ["RecordError", "RecordWarning", "record", "record_call", "streams", "trace"]
