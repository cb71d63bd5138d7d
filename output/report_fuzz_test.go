package output

import (
	"bytes"
	"compress/gzip"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzReadReport holds that a report which is read has a version that is known,
// and that writing it again loses nothing.
func FuzzReadReport(f *testing.F) {
	for _, text := range []string{`{"schema_version":1}`, "{}", "null", "", `{"schema_version":1,"nodes":[{"node":"n1"}]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, data := range [][]byte{text, packed(text)} {
			got, err := ReadReport(data)
			if err != nil {
				if !errors.Is(err, ErrUnreadableReport) {
					t.Errorf("got error %v, want one that unwraps to ErrUnreadableReport", err)
				}
				continue
			}
			var plain bytes.Buffer
			if err := got.WriteJSON(&plain); err != nil {
				t.Fatal(err)
			}
			again, err := ReadReport(packed(plain.Bytes()))
			if diff := cmp.Diff(got, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
				t.Errorf("error %v; written and read again (-first +second):\n%s", err, diff)
			}
		}
	})
}

func packed(text []byte) []byte {
	var buffer bytes.Buffer
	packer := gzip.NewWriter(&buffer)
	_, _ = packer.Write(text) // a buffer takes everything
	_ = packer.Close()
	return buffer.Bytes()
}
