"""Tables."""

import html


class Rows(list):
    """The rows of a table, each a dict; `frame()` makes a frame of them, and a notebook shows them
    as a table."""

    @property
    def columns(self):
        """The names of the columns."""
        return list(dict.fromkeys(name for row in self for name in row))

    def frame(self):
        """Returns a frame of pandas, or of polars if there is no pandas."""
        try:
            import pandas
        except ImportError:
            import polars

            return polars.DataFrame(list(self))
        return pandas.DataFrame(list(self), columns=self.columns)

    def _repr_html_(self):
        def cells(tag, values):
            cells = (f"<{tag}>{html.escape(str(value))}</{tag}>" for value in values)
            return f"<tr>{''.join(cells)}</tr>"

        rows = (cells("td", (row.get(name, "") for name in self.columns)) for row in self)
        return f"<table>{cells('th', self.columns)}{''.join(rows)}</table>"
