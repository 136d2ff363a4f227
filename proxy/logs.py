"""The program's own messages, on stderr: one line each, and never a traceback or an exception's text.

Those could hold what a client or an upstream sent. The decision log is another thing (`proxy.decisionlog`).
"""

import logging
import sys


class _OneLine(logging.Formatter):
    """Level, logger, message; of an exception its type and the place that raised it."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{record.levelname.lower()}: {record.name}: {record.getMessage()}"
        if record.exc_info and record.exc_info[0] is not None:
            line = f"{record.levelname.lower()}: {record.name}: {record.exc_info[0].__name__}"
            trace = record.exc_info[2]
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            if trace is not None:
                line += f" at {trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}"
        return line.replace("\r", " ").replace("\n", " ")


def configure(*, verbose: bool) -> None:
    """Send the program's messages to stderr; `verbose` adds those below a warning."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO if verbose else logging.WARNING)
    logging.raiseExceptions = False
