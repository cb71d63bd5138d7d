package installstate

import (
	"errors"
	"testing"
)

// Choria tells identities apart by letter case, and so do records and claims:
// what is done to one spelling leaves the other as it is.
func TestRecordsTellLetterCaseApart(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, on site) {
		s := on.open()
		done := complete(t, s, "A.Example.Net")
		if _, err := s.Load("a.example.net"); !errors.Is(err, ErrNotFound) {
			t.Errorf("got error %v for the other spelling, want ErrNotFound", err)
		}
		upper, lower := claim(t, s, "A.Example.Net"), claim(t, s, "a.example.net")
		upper.Release()
		lower.Release()
		complete(t, s, "a.example.net")
		gone := claim(t, s, "a.example.net")
		defer gone.Release()
		if err := s.Remove("a.example.net"); err != nil {
			t.Fatal(err)
		}
		kept, err := s.Load("A.Example.Net")
		if err != nil || kept.InstallationID != done.InstallationID {
			t.Errorf("got record %q and error %v, want %q", kept.InstallationID, err, done.InstallationID)
		}
	})
}
