// Package named tells of files that could not be replaced in the words of
// whoever named them. It does not replace any.
package named

import (
	"errors"
	"io/fs"
	"os"
)

// Path is err, of replacing the file at path, with that path in it: files are
// replaced by way of a temporary one, whose name means nothing to anybody.
func Path(err error, path string) error {
	var one *fs.PathError
	var two *os.LinkError
	switch {
	case errors.As(err, &one):
		return &fs.PathError{Op: one.Op, Path: path, Err: one.Err}
	case errors.As(err, &two):
		return &fs.PathError{Op: two.Op, Path: path, Err: two.Err}
	default:
		return err
	}
}
