package provision

// Run has a complexity of seven.
func Run(i int) {
	n := &node{dry: i > 1}
	for range i {
		switch {
		case n.dry && i > 2, i > 3:
			n.step()
		case i > 4 || i > 5:
			n.below()
		default:
		}
	}
	if i > 6 {
		n.step()
	}
}
