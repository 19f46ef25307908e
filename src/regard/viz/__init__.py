"""Pictures: an alignment as PNG, SVG, PDF or an HTML page, its data as a file, forecasts, and curves."""

from regard.viz.aligned import Aligned, Reading
from regard.viz.curves import plot_curves
from regard.viz.files import load_alignment, save_alignment
from regard.viz.forecast import plot_forecast
from regard.viz.plot import plot_alignment

__all__ = ["Aligned", "Reading", "load_alignment", "plot_alignment", "plot_curves", "plot_forecast", "save_alignment"]
