package provision

func (n *node) step() {
	if n.dry {
		n.below()
		n.name = ""
	}
	n.below()
}
