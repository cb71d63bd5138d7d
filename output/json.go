package output

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// WriteJSON writes v as every command with --output json does: indented by two
// blanks, with <, > and & as they are, and a newline at the end.
func WriteJSON(w io.Writer, v any) error {
	text, err := encode(v, "")
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// encode returns v as indented JSON; prefix begins every line but the first.
func encode(v any, prefix string) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent(prefix, "  ")
	err := encoder.Encode(v)
	return text.Bytes(), err
}

// noNodes is an empty list of nodes in an encoded document.
const noNodes = `"nodes": []`

// WriteJSON writes the document as the function WriteJSON does. Nodes are encoded
// one by one: a report of 50,000 is some 60 MB of text, and encoding it whole
// takes several times that in memory.
func (d Document) WriteJSON(w io.Writer) error {
	nodes := d.Nodes
	d.Nodes = []Node{}
	frame, err := encode(d, "")
	if err != nil {
		return err
	}
	before, after, found := bytes.Cut(frame, []byte(noNodes)) // found once: quotes within texts are escaped
	if !found {
		return errors.New("the report has no place for nodes")
	}
	out := bufio.NewWriter(w) // keeps the first error for Flush
	_, _ = out.Write(before)
	_, _ = out.WriteString(noNodes[:len(noNodes)-1])
	if err := writeNodes(out, nodes); err != nil {
		return err
	}
	_, _ = out.WriteString("]")
	_, _ = out.Write(after)
	return out.Flush()
}

func writeNodes(out *bufio.Writer, nodes []Node) error {
	separator := ""
	for _, node := range nodes {
		text, err := encode(node, "    ")
		if err != nil {
			return err
		}
		_, _ = out.WriteString(separator + "\n    ")
		_, _ = out.Write(bytes.TrimRight(text, "\n"))
		separator = ","
	}
	if len(nodes) > 0 {
		_, _ = out.WriteString("\n  ")
	}
	return nil
}
