package helper

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// written is an answer as a helper would write it, less its server_claims.
func written(a Answer) ([]byte, error) {
	return json.Marshal(map[string]any{
		"defer": a.Defer, "shutdown": a.Shutdown, "msg": a.Message, "key": a.Key, "certificate": a.Certificate,
		"ca": a.CA, "ssldir": a.SSLDir, "upgrade": a.Upgrade, "configuration": a.Configuration,
		"action_policies": a.ActionPolicies, "opa_policies": a.OPAPolicies,
	})
}

// FuzzParseAnswer holds that an answer which is read means what it says: written
// again it is the same one.
func FuzzParseAnswer(f *testing.F) {
	files, err := filepath.Glob("testdata/answer/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, text := range []string{"", "null", "[", `{"a":1}x`, `{"configuration":{"a":1}}`, `{"server_claims":{"exp":1e300}}`, "{\"\xff", `{"a":{"b":[[[{`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := parseAnswer(text)
		if err != nil {
			if !errors.Is(err, ErrAnswer) {
				t.Errorf("got error %v, want one that unwraps to ErrAnswer", err)
			}
			return
		}
		_, _ = a.Check(CheckInput{Identity: "n1", Config: plainConfig()})
		data, err := written(a)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseAnswer(data)
		if diff := cmp.Diff(a, again, cmpopts.IgnoreFields(Answer{}, "ServerClaims", "Claims"), cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("error %v; written and read again (-first +second):\n%s", err, diff)
		}
	})
}

// FuzzAnswerIdentity holds that an answer is for one node: whatever else reads
// it sees the same identity.
func FuzzAnswerIdentity(f *testing.F) {
	for _, text := range []string{`{"identity":"n1"}`, `{"IDENTITY":"n1"}`, `{"identity":null}`, `{"identity":1}`, "", `{"identity":"n1","identity":"n2"}`, `{"identity":"n1","Identity":null}`, `{"identity":"n1","Identity":"n2"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := answerIdentity(text)
		if err != nil || got == nil {
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(strings.TrimPrefix(string(text), byteOrderMark)), &members); err != nil {
			t.Fatalf("read %q of what is no JSON object: %v", *got, err)
		}
		for name, value := range members {
			var said *string
			if strings.EqualFold(name, "identity") && json.Unmarshal(value, &said) == nil && said != nil && *said != *got {
				t.Errorf("the answer is for %q and for %q", *got, *said)
			}
		}
	})
}

// FuzzParseCertificates holds that nothing stands beside the certificates that
// are read: written again, they are the same ones.
func FuzzParseCertificates(f *testing.F) {
	f.Add("")
	f.Add("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseCertificates(text)
		if err != nil {
			return
		}
		var written strings.Builder
		for _, certificate := range got {
			written.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}))
		}
		again, err := parseCertificates(written.String())
		if err != nil || len(again) != len(got) {
			t.Fatalf("got %d certificates, and %d of what they were written as (%v)", len(got), len(again), err)
		}
		if strings.TrimSpace(text) != "" && len(got) == 0 {
			t.Errorf("got no certificate and no error of %q", text)
		}
	})
}
