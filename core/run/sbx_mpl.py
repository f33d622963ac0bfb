# Matplotlib back end of sbx: no display is needed, and plt.show() writes each open figure to
# figure-1.png, figure-2.png ... in the working directory, then closes it, as a window would be.
from matplotlib import _pylab_helpers
from matplotlib.backends import backend_agg
from matplotlib.backend_bases import FigureManagerBase

FigureCanvas = backend_agg.FigureCanvasAgg
FigureManager = FigureManagerBase

_count = 0


def _next_name():
    import os

    global _count
    while True:
        _count += 1
        name = "figure-%d.png" % _count
        if not os.path.lexists(name):
            return name


def show(*args, **kwargs):
    for manager in _pylab_helpers.Gcf.get_all_fig_managers():
        manager.canvas.figure.savefig(_next_name(), format="png")
    _pylab_helpers.Gcf.destroy_all()


def new_figure_manager(num, *args, FigureClass=None, **kwargs):
    if FigureClass is None:
        from matplotlib.figure import Figure as FigureClass
    return new_figure_manager_given_figure(num, FigureClass(*args, **kwargs))


def new_figure_manager_given_figure(num, figure):
    return FigureManager(FigureCanvas(figure), num)


def draw_if_interactive():
    pass
