package helper

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/choria-io/tokens"
	"github.com/google/go-cmp/cmp"
)

func TestWholeAnswerIsRead(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/answer/everything.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseAnswer(text)
	if err != nil {
		t.Fatal(err)
	}
	claims := got.ServerClaims
	got.ServerClaims = nil
	want := Answer{
		Message: "rack r1 “ready”", Key: "KEY", Certificate: "CERT", CA: "CA", SSLDir: "/etc/choria/ssl", Upgrade: "0.30.2",
		Claims:         []string{"collectives", "exp", "ou", "permissions", "pub_subjects"},
		Configuration:  map[string]string{"identity": "n1", "plugin.choria.server.provision": "false"},
		ActionPolicies: map[string]string{"a.policy": "policy default deny"},
		OPAPolicies:    map[string]string{"b.rego": "package b"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"choria", "dc1"}, claims.Collectives); diff != "" {
		t.Errorf("collectives (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&tokens.ServerPermissions{Streams: true}, claims.Permissions); diff != "" {
		t.Errorf("permissions (-want +got):\n%s", diff)
	}
	if got, want := claims.ExpiresAt.Time, time.Unix(4102444800, 0); !got.Equal(want) {
		t.Errorf("exp: got %s, want %s", got, want)
	}
}

func TestAnswersThatAreUnusualAndFine(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       Answer
	}{
		{"empty object", `{}`, Answer{}},
		{"space around", " \n{\"defer\":true}\n\n", Answer{Defer: true}},
		{"unknown keys", `{"color":"red","nested":{"msg":[1,2]},"msg":"m"}`, Answer{Message: "m"}},
		{"null is absent", `{"defer":null,"configuration":null,"server_claims":null,"key":null}`, Answer{}},
		{"unknown keys given twice in a part nobody reads", `{"x":{"a":1,"a":2}}`, Answer{}},
		{"false twice is a choice", `{"defer":false,"shutdown":true,"msg":"scrap"}`, Answer{Shutdown: true, Message: "scrap"}},
		{"keys in another letter case", `{"Defer":false,"MSG":"m","Configuration":{"A":"b"},"sslDir":"/s","\u017fhutdown":true}`, Answer{Message: "m", Configuration: map[string]string{"A": "b"}, SSLDir: "/s", Shutdown: true}},
		{"byte order mark", "\ufeff{\"defer\":true}", Answer{Defer: true}},
		{"byte order mark within", `{"msg":"` + "\ufeff" + `m"}`, Answer{Message: "\ufeffm"}},
		{"backslash before what looks like a surrogate", `{"msg":"\\ud800 \\\ud83d\ude00"}`, Answer{Message: `\ud800 \😀`}},
		{"escapes", `{"msg":"\u00e9\n\ud83d\ude00"}`, Answer{Message: "é\n😀"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseAnswer([]byte(tt.text))
			if err != nil {
				t.Fatalf("got error %v, want none", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnusableAnswersSayWhere(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, says string }{
		{"empty", "", "wrote nothing to stdout"},
		{"blank", " \n\t", "wrote nothing to stdout"},
		{"half", "{\n \"msg\": \"x\",", `line 2, column 12: unexpected end of JSON input`},
		{"half string", `{"msg": "never en`, `line 1, column 17: unexpected end`},
		{"text behind", "{\"msg\":\"x\"}\nDone.\n", `line 2, column 1: invalid character 'D' after top-level value, near "{\"msg\":\"x\"}\nDone.\n"`},
		{"second document", `{"msg":"x"}{"msg":"y"}`, `line 1, column 12: invalid character '{' after top-level value`},
		{"column counts characters", `{"msg":"äöü" x}`, `line 1, column 14`},
		{"null", `null`, `line 1, column 1: the answer is null, want an object`},
		{"array", "\n[1]", `line 2, column 1: the answer is an array, want an object`},
		{"string", `"configuration"`, `the answer is a string, want an object`},
		{"number", `12`, `the answer is a number, want an object`},
		{"not UTF-8", "{\"msg\":\"\xff\"}", `line 1, column 9: it is not UTF-8`},
		{"utf-16", "\xff\xfe{\x00}\x00", `line 1, column 1: it is not UTF-8`},
		{"two byte order marks", "\ufeff\ufeff{}", `line 1, column 1`},
		{"byte order mark alone", "\ufeff\n", "wrote nothing to stdout"},
		{"column behind a byte order mark", "\ufeff{\"msg\": x}", `line 1, column 9`},
		{"lone high surrogate", `{"msg":"a\ud800b"}`, `line 1, column 10: \ud800 is half a character`},
		{"lone low surrogate", `{"msg":"\\\udfff"}`, `line 1, column 11: \udfff is half a character`},
		{"high surrogate twice", `{"msg":"\ud83d\ud83d\ude00"}`, `line 1, column 9: \ud83d is half`},
		{"high surrogate before another escape", `{"msg":"\uD83D\n"}`, `\uD83D is half`},
		{"high surrogate at the end", `{"msg":"\ud83d"}`, `\ud83d is half`},
		{"lone surrogate in a name", "{\n\"configuration\":{\"\\udc00\":\"x\"}}", `line 2, column 19: \udc00 is half`},
		{"lone surrogate where nobody reads", `{"other":["\ud800"]}`, `\ud800 is half`},
		{"flag as text", `{"defer":"true"}`, `line 1, column 10: defer is a string, want true or false`},
		{"flag as number", `{"shutdown":1}`, `shutdown is a number, want true or false`},
		{"text as list", `{"msg":["x"]}`, `msg is an array, want a string`},
		{"configuration as list", `{"configuration":["x"]}`, `configuration is an array, want an object`},
		{"number in configuration", "{\"configuration\":{\n\"a\":\"1\",\n \"port\": 4222}}", `line 3, column 10: configuration: "port" is a number, want a string; put it in quotes`},
		{"bool in configuration", `{"configuration":{"plugin.choria.server.provision":false}}`, `configuration: "plugin.choria.server.provision" is true or false, want a string`},
		{"null in configuration", `{"configuration":{"identity":null}}`, `configuration: "identity" is null, want a string`},
		{"object in policies", `{"action_policies":{"a.policy":{}}}`, `action_policies: "a.policy" is an object, want a string`},
		{"key given twice", `{"msg":"x","msg":"y"}`, `the answer gives "msg" twice`},
		{"key given twice in another letter case", `{"configuration":{"a":"1"},"Configuration":{"b":"2"}}`, `line 1, column 44: the answer gives "configuration" twice, once as "Configuration"`},
		{"setting given twice", `{"configuration":{"identity":"n1","x":"y","identity":"n2"}}`, `line 1, column 52: configuration gives "identity" twice`},
		{"setting given twice in disguise", `{"configuration":{"identity":"n1","\u0069dentity":"n2"}}`, `configuration gives "identity" twice`},
		{"claims of a wrong kind", `{"server_claims":{"collectives":"choria"}}`, `server_claims: collectives is a string, want []string`},
		{"claims as text", `{"server_claims":"x"}`, `server_claims is a string, want an object`},
		{"exp as text", `{"server_claims":{"exp":"tomorrow"}}`, `server_claims`},
		{"exp in milliseconds", `{"server_claims":{"exp":4102444800000}}`, `in seconds since 1970`},
		{"exp beyond numbers", `{"server_claims":{"exp":1e300}}`, `in seconds since 1970`},
		{"both ends", `{"defer":true,"shutdown":true}`, `both defer and shutdown`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseAnswer([]byte(tt.text))
			wantCause(t, err, ErrAnswer, tt.says)
			if diff := cmp.Diff(Answer{}, got); err == nil || diff != "" {
				t.Errorf("got error %v and answer (-none +got):\n%s", err, diff)
			}
		})
	}
}

func TestErrorsShowNoKeys(t *testing.T) {
	t.Parallel()
	secret := "MIIEowIBAAKCAQEA7bq98A0Yc4jjV3tuJTYYuKXWkGXc"
	_, err := parseAnswer([]byte(`{"key":"-----BEGIN RSA PRIVATE KEY-----\n` + secret))
	wantCause(t, err, ErrAnswer, "unexpected end")
	for i := 0; i+8 <= len(secret); i++ {
		if strings.Contains(err.Error(), secret[i:i+8]) {
			t.Fatalf("got %q, want nothing of the key in it", err)
		}
	}
}
