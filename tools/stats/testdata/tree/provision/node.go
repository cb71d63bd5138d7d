// Package provision has one reference that points up.
package provision

type node struct {
	name, site string
	dry        bool
}

// below is in the lowest file, and refers to one above it.
func (n *node) below() { n.step() }
