package commands

import (
	"fmt"
	"io"
)

// result is the stdout of a command. It keeps the first error of writing there,
// and writes nothing after it: however a command prints its result, one that
// was lost is no success.
type result struct {
	io.Writer
	err error
}

// Write implements io.Writer.
func (r *result) Write(text []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.Writer.Write(text)
	if err != nil {
		r.err = fmt.Errorf("the result could not be written: %w", err)
	}
	return n, r.err
}
