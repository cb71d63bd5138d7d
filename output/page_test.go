package output

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
)

func TestPage(t *testing.T) {
	t.Parallel()
	for _, width := range []int{60, 100, 160} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			var text bytes.Buffer
			p := NewPage(&text, PageOptions{Width: width})
			p.Heading("State of this site")
			p.Pairs(Pair{Name: "site", Value: "site1"}, Pair{Name: "last run", Value: "2026-03-01 12:00:00, exit code 3: the run was done and at least one node failed, which the table below shows"}, Pair{Name: "paused"})
			p.Blank()
			p.Table(Table{
				Columns: []Column{{Title: "NODE"}, {Title: "AGE", Right: true}, {Title: "EMPTY"}, {Title: "WHY", Flex: true}},
				Rows: [][]Cell{
					Cells("web1.example.net", "3s", "", "held"),
					Cells("a-node-with-a-long-name-that-stays-whole.example.net", "12m", "", "a remark that gives way where the page is narrow, and is whole where it is wide"),
					Cells("東京.example.net", "1h", "", "wide\x1b[1mcharacters"),
				},
			})
			p.Warning("config.yaml can be read by others: it holds the token, so take away what is not yours to give with `chmod 600 config.yaml`")
			p.Item(1, Dim, "an aside")
			if p.Err() != nil {
				t.Error(p.Err())
			}
			golden(t, fmt.Sprintf("page-%d.golden", width), text.String())
			noEscapes(t, text.String())
		})
	}
}

func TestPageWidth(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		given, want int
	}{
		{"none in a pipe", 0, 0},
		{"never too narrow", 20, 60},
		{"as it is", 132, 132},
		{"never too wide", 400, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := NewPage(io.Discard, PageOptions{Width: tt.given}).width; got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestColourOnlyWhereItIsWanted(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	t.Setenv("CLICOLOR_FORCE", "1") // nobody asked for it with our flag
	tests := []struct {
		name, mode string
		w          io.Writer
		want       bool
	}{
		{"auto in a buffer", "auto", io.Discard, false},
		{"auto in a file", "auto", file, false},
		{"always in a file", "always", file, true},
		{"never", "never", file, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := styles(tt.w, tt.mode)[Bad].Render("x") != "x"
			if got != tt.want {
				t.Errorf("got colour %v, want %v", got, tt.want)
			}
		})
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestPageKeepsTheFirstError(t *testing.T) {
	t.Parallel()
	p := NewPage(closed{}, PageOptions{})
	p.Heading("a")
	p.Blank()
	if !errors.Is(p.Err(), os.ErrClosed) {
		t.Errorf("got %v, want %v", p.Err(), os.ErrClosed)
	}
}
