package provision

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/choria-io/tokens"
	"github.com/google/go-cmp/cmp"

	"choria-provision/config"
)

// script is a helper from testdata, run by sh.
func script(name string, args ...string) ExecHelper {
	line := append([]string{"sh", filepath.Join("testdata", "helper", name+".sh")}, args...)
	return ExecHelper{Command: config.Command{Line: strings.Join(line, " "), Args: line}, Timeout: time.Minute}
}

func TestHelperSeesInputAndEnvironment(t *testing.T) {
	t.Parallel()
	h := script("good")
	h.Env = []string{"PROVISION_DRY_RUN=1"}
	got, err := h.Answer(t.Context(), HelperInput{Identity: "n1.example.net"})
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
		helper ExecHelper
		cause  error
		says   []string
	}{
		{"none configured", ExecHelper{}, ErrHelper, []string{"set helper"}},
		{"no such program", ExecHelper{Command: config.Command{Args: []string{"/nonexistent/helper"}}}, ErrHelper, []string{"/nonexistent/helper", "no such file"}},
		{"exit code wins over a good answer", script("liar"), ErrHelper, []string{"exit status 3", "certificate authority"}},
		{"exit code wins though it comes late", script("late"), ErrHelper, []string{"exit status 4"}},
		{"signal wins over a good answer", script("killed"), ErrHelper, []string{"signal: killed"}},
		{"nothing on stdout", script("silent"), ErrHelperAnswer, []string{"nothing to stdout", "no such site"}},
		{"log mixed into the answer", script("garbage"), ErrHelperAnswer, []string{"line 1, column 1", "INFO: lookin"}},
		{"half an answer", script("half"), ErrHelperAnswer, []string{"line 3, column 16", "unexpected end", "plugin.choria"}},
		{"endless answer", script("endless"), ErrHelperAnswer, []string{"longer than 8 MiB"}},
		{"end of a long story", script("chatty"), ErrHelper, []string{"exit status 1", "line 1999 of a long story"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := tt.helper.Answer(t.Context(), HelperInput{Identity: "n1"})
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
		_, err := h.Answer(t.Context(), HelperInput{Inventory: strings.Repeat("i", 1<<20)})
		wantCause(t, err, ErrHelperTimeout, "after 300ms")
	}
}

func TestHelperNeedNotReadItsInput(t *testing.T) {
	t.Parallel()
	got, err := script("unread").Answer(t.Context(), HelperInput{Inventory: strings.Repeat("i", 1<<20)})
	if err != nil || got.Message != "did not read" {
		t.Errorf("got %q and error %v, want its answer", got.Message, err)
	}
}

func TestInputAndAnswerBeyondAnyPipe(t *testing.T) {
	t.Parallel()
	size := 3 << 20
	got, err := script("echo").Answer(t.Context(), HelperInput{Inventory: strings.Repeat("i", size)})
	if err != nil || len(got.Message) < size {
		t.Errorf("got %d bytes and error %v, want at least %d", len(got.Message), err, size)
	}
}

func TestHelperInputHasExactlyTheKeysOfTheContract(t *testing.T) {
	t.Parallel()
	claims := &tokens.ProvisioningClaims{Token: "s3cret-token", ProvNatsPass: "s3cret-pass", URLs: "nats://b:4222", Extensions: tokens.MapClaims{"rack": "r1"}}
	tests := []struct {
		name string
		in   HelperInput
		want string
	}{
		{"everything off", HelperInput{Identity: "n1", Inventory: "{}"},
			`{"identity":"n1","csr":null,"ed25519_pubkey":null,"inventory":"{}","jwt":null}`},
		{"everything on", HelperInput{Identity: "n1", CSR: &HelperCSR{"c", "p", "/s"}, ED25519: &HelperED25519{"p", "/d", "s"}, JWT: helperClaims(claims)},
			`{"identity":"n1","csr":{"csr":"c","public_key":"p","ssldir":"/s"},` +
				`"ed25519_pubkey":{"public_key":"p","directory":"/d","signature":"s"},"inventory":"",` +
				`"jwt":{"chs":false,"chu":"nats://b:4222","chpd":false,"extensions":{"rack":"r1"},"purpose":""}}`},
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

// A claim that a later tokens module adds must be looked at before helpers get
// it, and must not be forgotten either.
func TestEveryClaimIsSentOrKnownToBeSecret(t *testing.T) {
	t.Parallel()
	claims := tokens.ProvisioningClaims{}
	filled := reflect.ValueOf(&claims).Elem()
	sent := reflect.TypeFor[HelperClaims]()
	for i := range filled.NumField() {
		field := filled.Type().Field(i)
		twin, ok := sent.FieldByName(field.Name)
		secret := field.Name == "Token" || field.Name == "ProvNatsPass"
		if ok == secret {
			t.Errorf("%s: got sent %v, want %v", field.Name, ok, !secret)
		}
		if ok && twin.Tag != field.Tag {
			t.Errorf("%s: got tag %s, want %s", field.Name, twin.Tag, field.Tag)
		}
		switch value := filled.Field(i); value.Kind() {
		case reflect.String:
			value.SetString("text of " + field.Name)
		case reflect.Bool:
			value.SetBool(true)
		}
	}
	copied := reflect.ValueOf(*helperClaims(&claims))
	for i := range copied.NumField() {
		if name := copied.Type().Field(i).Name; !reflect.DeepEqual(copied.Field(i).Interface(), filled.FieldByName(name).Interface()) {
			t.Errorf("%s: got %v, want it copied", name, copied.Field(i))
		}
	}
}
