package output

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Column is one column of a table.
type Column struct {
	Title string
	Right bool // aligned right, for numbers and times
	Flex  bool // cut first on a narrow page: for remarks, not for identities
}

// Cell is a text of a table, on one line.
type Cell struct {
	Text string
	Tone Tone
}

// Cells returns cells of tone Plain.
func Cells(texts ...string) []Cell {
	row := make([]Cell, len(texts))
	for i, text := range texts {
		row[i] = Cell{Text: text}
	}
	return row
}

// Table holds rows under titles. The tables of lipgloss narrow all columns alike;
// here an identity stays whole as long as another column can be cut.
type Table struct {
	Columns []Column
	Rows    [][]Cell
}

// The gap between two columns and the least width of a cut column, flexible or
// not, in columns of the terminal.
const (
	columnGap = 2
	leastFlex = 8
	leastCell = 6
)

// Table writes t without the columns whose cells are all empty.
func (p *Page) Table(t Table) {
	t = t.escaped().withoutEmpty()
	widths := t.widths()
	t.fit(widths, p.width)
	titles := make([]Cell, len(t.Columns))
	for i, column := range t.Columns {
		titles[i] = Cell{Text: column.Title, Tone: Strong}
	}
	p.row(t.Columns, widths, titles)
	for _, row := range t.Rows {
		p.row(t.Columns, widths, row)
	}
}

func (p *Page) row(columns []Column, widths []int, row []Cell) {
	var line strings.Builder
	pending := 0 // blanks, written when more text follows
	for i, cell := range row {
		text := ansi.Truncate(cell.Text, widths[i], "…")
		pad := widths[i] - ansi.StringWidth(text)
		if columns[i].Right {
			pending, pad = pending+pad, 0
		}
		if text != "" {
			line.WriteString(strings.Repeat(" ", pending))
			line.WriteString(p.paint(cell.Tone, text))
			pending = 0
		}
		pending += pad + columnGap
	}
	p.print(line.String() + "\n")
}

func (t Table) escaped() Table {
	rows := make([][]Cell, len(t.Rows))
	for i, row := range t.Rows {
		rows[i] = make([]Cell, len(row))
		for j, cell := range row {
			rows[i][j] = Cell{EscapeTo(cell.Text, maxText), cell.Tone}
		}
	}
	return Table{t.Columns, rows}
}

func (t Table) withoutEmpty() Table {
	used := make([]bool, len(t.Columns))
	for _, row := range t.Rows {
		for j, cell := range row {
			used[j] = used[j] || cell.Text != ""
		}
	}
	kept := Table{Rows: make([][]Cell, len(t.Rows))}
	for j, column := range t.Columns {
		if !used[j] {
			continue
		}
		kept.Columns = append(kept.Columns, column)
		for i, row := range t.Rows {
			kept.Rows[i] = append(kept.Rows[i], row[j])
		}
	}
	return kept
}

func (t Table) widths() []int {
	widths := make([]int, len(t.Columns))
	for j, column := range t.Columns {
		widths[j] = ansi.StringWidth(column.Title)
		for _, row := range t.Rows {
			widths[j] = max(widths[j], ansi.StringWidth(row[j].Text))
		}
	}
	return widths
}

// fit narrows columns until the table is at most limit wide: flexible ones first,
// then the widest.
func (t Table) fit(widths []int, limit int) {
	if limit == 0 || len(widths) == 0 {
		return
	}
	over := columnGap*(len(widths)-1) - limit
	for _, width := range widths {
		over += width
	}
	for ; over > 0; over-- {
		j := t.widest(widths)
		if j < 0 {
			return
		}
		widths[j]--
	}
}

func (t Table) widest(widths []int) int {
	flexible, any := -1, -1
	for j, width := range widths {
		if t.Columns[j].Flex && width > leastFlex && (flexible < 0 || width > widths[flexible]) {
			flexible = j
		}
		if width > leastCell && (any < 0 || width > widths[any]) {
			any = j
		}
	}
	if flexible >= 0 {
		return flexible
	}
	return any
}
