package output

import (
	"errors"
	"io/fs"
	"os"
)

// WithPath returns err, from an attempt to replace the file at path, with that
// path in it. A file is replaced by way of a temporary one, whose name means
// nothing to the reader of the error.
func WithPath(err error, path string) error {
	var pathError *fs.PathError
	var linkError *os.LinkError
	switch {
	case errors.As(err, &pathError):
		return &fs.PathError{Op: pathError.Op, Path: path, Err: pathError.Err}
	case errors.As(err, &linkError):
		return &fs.PathError{Op: linkError.Op, Path: path, Err: linkError.Err}
	default:
		return err
	}
}
