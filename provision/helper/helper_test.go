package helper

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/choria-io/tokens"
	"github.com/google/go-cmp/cmp"

	"choria-provision/config"
	"choria-provision/provision/trust"
)

// script is a helper from testdata, run by sh.
func script(name string, args ...string) Exec {
	line := append([]string{"sh", filepath.Join("testdata", "helper", name+".sh")}, args...)
	return Exec{Command: config.Command{Line: strings.Join(line, " "), Args: line}, Timeout: time.Minute}
}

func TestHelperSeesInputAndEnvironment(t *testing.T) {
	t.Parallel()
	h := script("good")
	h.Env = []string{"PROVISION_DRY_RUN=1"}
	got, err := h.Answer(t.Context(), Input{Identity: "n1.example.net"})
	if err != nil {
		t.Fatal(err)
	}
	want := Answer{Message: "saw 1", Configuration: map[string]string{"identity": "n1.example.net"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func TestBadHelpersFailWithTheirCause(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		helper Exec
		cause  error
		says   []string
	}{
		{"none configured", Exec{}, ErrFailed, []string{"set helper"}},
		{"no such program", Exec{Command: config.Command{Args: []string{"/nonexistent/helper"}}}, ErrFailed, []string{"/nonexistent/helper", "no such file"}},
		{"exit code wins over a good answer", script("liar"), ErrFailed, []string{"exit status 3", "certificate authority"}},
		{"exit code wins though it comes late", script("late"), ErrFailed, []string{"exit status 4"}},
		{"signal wins over a good answer", script("killed"), ErrFailed, []string{"signal: killed"}},
		{"nothing on stdout", script("silent"), ErrAnswer, []string{"nothing to stdout", "no such site"}},
		{"log mixed into the answer", script("garbage"), ErrAnswer, []string{"line 1, column 1", "INFO: lookin"}},
		{"half an answer", script("half"), ErrAnswer, []string{"line 3, column 16", "unexpected end", "plugin.choria"}},
		{"endless answer", script("endless"), ErrAnswer, []string{"longer than 8 MiB"}},
		{"end of a long story", script("chatty"), ErrFailed, []string{"exit status 1", "line 1999 of a long story"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := tt.helper.Answer(t.Context(), Input{Identity: "n1"})
			for _, text := range tt.says {
				wantCause(t, err, tt.cause, text)
			}
			if err != nil && len(err.Error()) > stderrLimit+1024 {
				t.Errorf("got an error of %d bytes, want stderr's tail only", len(err.Error()))
			}
		})
	}
}

func TestHangingHelperIsEndedInTime(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"hang", "mute"} {
		h := script(name)
		h.Timeout = 300 * time.Millisecond
		_, err := h.Answer(t.Context(), Input{Inventory: strings.Repeat("i", 1<<20)})
		wantCause(t, err, ErrTimeout, "after 300ms")
	}
}

func TestHelperNeedNotReadItsInput(t *testing.T) {
	t.Parallel()
	got, err := script("unread").Answer(t.Context(), Input{Inventory: strings.Repeat("i", 1<<20)})
	if err != nil || got.Message != "did not read" {
		t.Errorf("got %q and error %v, want its answer", got.Message, err)
	}
}

func TestInputAndAnswerBeyondAnyPipe(t *testing.T) {
	t.Parallel()
	size := 3 << 20
	got, err := script("echo").Answer(t.Context(), Input{Inventory: strings.Repeat("i", size)})
	if err != nil || len(got.Message) < size {
		t.Errorf("got %d bytes and error %v, want at least %d", len(got.Message), err, size)
	}
}

// tokenOf is a token with this payload. Nobody signed it: that is looked at elsewhere.
func tokenOf(payload string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
}

func TestHelperInputHasExactlyTheKeysOfTheContract(t *testing.T) {
	t.Parallel()
	claims, err := SelectClaims(tokenOf(`{"cht":"s3cret-token","chpwd":"s3cret-pass","chu":"nats://b:4222","extensions":{"rack":"r1"}}`))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		in   Input
		want string
	}{
		{"everything off", Input{Identity: "n1", Inventory: "{}"},
			`{"identity":"n1","csr":null,"ed25519_pubkey":null,"inventory":"{}","jwt":null}`},
		{"everything on", Input{Identity: "n1", CSR: &InputCSR{"c", "p", "/s"}, ED25519: &InputED25519{"p", "/d", "s"}, JWT: claims},
			`{"identity":"n1","csr":{"csr":"c","public_key":"p","ssldir":"/s"},` +
				`"ed25519_pubkey":{"public_key":"p","directory":"/d","signature":"s"},"inventory":"",` +
				`"jwt":{"chs":false,"chu":"nats://b:4222","chpd":false,"extensions":{"rack":"r1"},"ou":"choria","purpose":""}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := json.Marshal(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("input (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClaimsReachTheHelperAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	const absent = `"chs":false,"chpd":false,`
	tests := []struct{ name, payload, want string }{
		{"numbers beyond what a float holds", `{"extensions":{"serial":9007199254740993,"id":123456789012345678901234567890}}`,
			`{` + absent + `"extensions":{"serial":9007199254740993,"id":123456789012345678901234567890},"ou":"choria","purpose":""}`},
		{"decimals", `{"extensions":{"release":1.10,"tiny":1e-400,"zero":-0.0}}`,
			`{` + absent + `"extensions":{"release":1.10,"tiny":1e-400,"zero":-0.0},"ou":"choria","purpose":""}`},
		{"order and depth", `{"purpose":"p","extensions":{"z":[1.0,{"b":2,"a":null}],"a":true},"ou":"acme","iat":1.7e9,"exp":1700000000}`,
			`{` + absent + `"extensions":{"z":[1.0,{"b":2,"a":null}],"a":true},"ou":"acme","purpose":"p","exp":1700000000,"iat":1.7e9}`},
		{"null is absent", `{"chs":null,"extensions":null,"sub":null}`, `{` + absent + `"extensions":null,"ou":"choria","purpose":""}`},
		{"another letter case", `{"CHS":true,"Extensions":{"Rack":1}}`, `{"chs":true,"chpd":false,"extensions":{"Rack":1},"ou":"choria","purpose":""}`},
		{"secrets and what is unknown", `{"cht":"s3cret","CHT":"s3cret","ChPwd":"s3cret","later":"s3cret"}`, `{` + absent + `"extensions":null,"ou":"choria","purpose":""}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := SelectClaims(tokenOf(tt.payload))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAmbiguousClaimsAreRefused(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{`{"ou":"a","ou":"b"}`, `{"ou":"a","OU":"b"}`} {
		_, err := SelectClaims(tokenOf(payload))
		wantCause(t, err, trust.ErrJWT, "twice")
	}
}

// A claim that a later tokens module adds must be looked at before helpers get
// it, and must not be forgotten either.
func TestEveryClaimIsSentOrKnownToBeSecret(t *testing.T) {
	t.Parallel()
	for _, field := range reflect.VisibleFields(reflect.TypeFor[tokens.ProvisioningClaims]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous {
			continue
		}
		claims, err := SelectClaims(tokenOf(`{"` + name + `":["value"]}`))
		if err != nil {
			t.Fatal(err)
		}
		secret := name == "cht" || name == "chpwd"
		if sent := strings.Contains(string(claims), `"`+name+`":["value"]`); sent == secret {
			t.Errorf("%s: got sent %v, want %v", field.Name, sent, !secret)
		}
	}
}

func FuzzHelperClaims(f *testing.F) {
	for _, payload := range []string{`{}`, `null`, `{"cht":"s"}`, `{"extensions":{"a":1.10}}`, `{"ou":"a","OU":"b"}`, `{"chs":`, "{\"a\":\"\xff\"}"} {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		got, err := SelectClaims(tokenOf(payload))
		if err != nil {
			if !errors.Is(err, trust.ErrJWT) {
				t.Errorf("got error %v, want one that unwraps to trust.ErrJWT", err)
			}
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(got, &members); err != nil {
			t.Fatalf("got %s: %v", got, err)
		}
		for name := range members {
			if strings.EqualFold(name, "cht") || strings.EqualFold(name, "chpwd") {
				t.Errorf("got %s, want no secret in it", got)
			}
		}
	})
}
