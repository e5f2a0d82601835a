"""Server-side printing: the columns that kubectl shows. Start at `printers.py`; the wire form is made in `forms.py`."""

from simulator.apiserver.printing.printers import printer_of

__all__ = ["printer_of"]
