package notebook

import "colab-mcp/bridge"

// AddTools adds the tools of this package. local is which files of this
// machine they may write.
func AddTools(tb *bridge.Toolbox, n *Notebook, local *Local) {
	tb.Guard, tb.Added = n.Guard, n.Added
	tb.Facts.Other = n.Other
	addOutline(tb, n)
	addExport(tb, n, local)
}
