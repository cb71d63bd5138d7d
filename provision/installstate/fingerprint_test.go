package installstate

import (
	"encoding/json"
	"os"
	"testing"
)

// The literal fingerprints come from sha256sum. When this test fails, records
// that are out there would change hands: mend the code, never the fixtures.
func TestFingerprintsStayWhatTheyWere(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/fingerprints.json")
	if err != nil {
		t.Fatal(err)
	}
	var tests []struct {
		Name        string     `json:"name"`
		Canonical   string     `json:"canonical"`
		Definition  Definition `json:"definition"`
		Fingerprint string     `json:"fingerprint"`
	}
	if err := json.Unmarshal(text, &tests); err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		t.Run(test.Name, func(t *testing.T) {
			t.Parallel()
			canonical, err := test.Definition.Canonical()
			if err != nil {
				t.Fatal(err)
			}
			if string(canonical) != test.Canonical {
				t.Errorf("got canonical %s, want %s", canonical, test.Canonical)
			}
			if got := Fingerprint([]byte(test.Canonical)); got != test.Fingerprint {
				t.Errorf("got %s, want %s", got, test.Fingerprint)
			}
		})
	}
}

func TestFingerprintHashesExactlyItsInput(t *testing.T) {
	t.Parallel()
	if Fingerprint([]byte(`{"site":"a"}`)) == Fingerprint([]byte(`{"site": "a"}`)) {
		t.Error("got one fingerprint for two texts, want two")
	}
}
