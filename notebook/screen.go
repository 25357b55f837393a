package notebook

import "unicode/utf8"

// line is the row under the cursor, made if it is not there yet.
func (t *Terminal) line() *row {
	for len(t.rows) <= t.row {
		var cells []rune
		if n := len(t.spare); n > 0 {
			cells, t.spare = t.spare[n-1], t.spare[:n-1]
		}
		t.rows = append(t.rows, row{cells: cells})
	}
	return &t.rows[t.row]
}

// put prints one rune at the cursor.
func (t *Terminal) put(r rune) {
	l := t.line()
	switch {
	case t.col < len(l.cells):
		l.cells[t.col] = r
		l.redrawn = true
	default:
		for len(l.cells) < t.col {
			l.cells = append(l.cells, ' ')
		}
		l.cells = append(l.cells, r)
	}
	t.col++
	if len(l.cells) >= longestRow {
		t.settleLeft()
	}
}

// newline moves to the start of the next row, which may scroll the screen.
func (t *Terminal) newline() {
	t.line()
	t.row++
	t.col = 0
	for t.row >= screenRows {
		t.settleTop()
	}
	t.line()
}

// settleTop takes the first row off the screen for good.
func (t *Terminal) settleTop() {
	top := &t.rows[0]
	for _, r := range top.text() {
		t.settled = utf8.AppendRune(t.settled, r)
	}
	t.settled = append(t.settled, '\n')
	if len(t.spare) < 2 {
		t.spare = append(t.spare, top.cells[:0])
	}
	t.rows = t.rows[1:]
	t.row--
	t.saved.row = max(t.saved.row-1, 0)
}

// settleLeft settles all above the cursor's row and the row itself up to the
// cursor: a row without end must not grow the screen without end.
func (t *Terminal) settleLeft() {
	for t.row > 0 {
		t.settleTop()
	}
	l := &t.rows[0]
	for _, r := range l.cells[:t.col] {
		t.settled = utf8.AppendRune(t.settled, r)
	}
	l.cells = append(l.cells[:0], l.cells[t.col:]...)
	t.col = 0
	t.saved.row, t.saved.col = 0, 0
}

// moveTo puts the cursor there, as far as the screen goes.
func (t *Terminal) moveTo(r, c int) {
	t.row = min(max(r, 0), screenRows-1)
	right := screenColumn
	if t.row < len(t.rows) {
		right = max(right, len(t.rows[t.row].cells))
	}
	t.col = min(max(c, 0), right)
}

// eraseLine is CSI K: 0 right of the cursor, 1 left of it, 2 both.
func (t *Terminal) eraseLine(mode int) {
	if t.row >= len(t.rows) {
		return
	}
	l := &t.rows[t.row]
	l.redrawn = true
	switch mode {
	case 0:
		l.cells = l.cells[:min(t.col, len(l.cells))]
	case 1:
		for i := range min(t.col+1, len(l.cells)) {
			l.cells[i] = ' '
		}
	case 2:
		l.cells = l.cells[:0]
	}
}

// eraseScreen is CSI J: 0 below the cursor, 1 above it, 2 all. What has
// scrolled away stays, even for mode 3: it was said.
func (t *Terminal) eraseScreen(mode int) {
	switch mode {
	case 0:
		t.eraseLine(0)
		if t.row+1 < len(t.rows) {
			t.rows = t.rows[:t.row+1]
		}
	case 1:
		t.eraseLine(1)
		for i := range min(t.row, len(t.rows)) {
			t.rows[i].cells = t.rows[i].cells[:0]
		}
	case 2:
		t.rows = t.rows[:0]
	}
}

// blank is CSI X: n cells from the cursor on become blanks.
func (t *Terminal) blank(n int) {
	if t.row >= len(t.rows) {
		return
	}
	l := &t.rows[t.row]
	l.redrawn = true
	for i := t.col; i < min(t.col+n, len(l.cells)); i++ {
		l.cells[i] = ' '
	}
}
