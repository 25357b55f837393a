package notebook

import "colab-mcp/bridge"

// AddTools adds the tools of this package.
func AddTools(tb *bridge.Toolbox, n *Notebook) {
	addOutline(tb, n)
}
