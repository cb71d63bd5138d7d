package config

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// decoded decodes what YAML printed, unchecked.
func decoded(text []byte) (*Config, []Problem) {
	tree := parseSource(text)
	cfg := Default()
	d := newDecoder(tree.root)
	d.document(tree.root, cfg)
	return cfg, append(tree.problems, d.problems...)
}

var compare = cmp.Options{
	cmp.AllowUnexported(Secret{}),
	cmpopts.IgnoreUnexported(Config{}), // what the checks found in key files
	cmp.Comparer(func(a, b *regexp.Regexp) bool { return a.String() == b.String() }),
}

func TestWhatIsShownLoadsAgainToTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		want := Default()
		want.Site = text.Draw(t, "site")
		want.JWTVerifyCert = text.Draw(t, "file")
		want.Workers = rapid.Int().Draw(t, "workers")
		want.Insecure = rapid.Bool().Draw(t, "insecure")
		want.CertDenyList = []Pattern{}
		for range rapid.IntRange(0, 2).Draw(t, "patterns") {
			source := regexp.QuoteMeta("a" + text.Draw(t, "pattern"))
			want.CertDenyList = append(want.CertDenyList, Pattern{regexp.MustCompile(source), source})
		}
		want.Pushgateway.Grouping = map[string]string{"a" + text.Draw(t, "label"): text.Draw(t, "value")}
		printed := want.YAML()
		got, problems := decoded(printed)
		if len(problems) > 0 {
			t.Fatalf("got %v for:\n%s", problems, printed)
		}
		if diff := cmp.Diff(want, got, compare); diff != "" {
			t.Fatalf("(-want +got):\n%s\n%s", diff, printed)
		}
	})
}

func TestEveryKeyIsShownAndAccepted(t *testing.T) {
	t.Parallel()
	cfg, problems := decoded(Default().YAML())
	if len(problems) > 0 {
		t.Fatalf("got %v, want nothing to say", problems)
	}
	if diff := cmp.Diff(Default(), cfg, compare); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text, err := cfg.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	if got, want := len(document), 39-2; got != want { // two keys that nothing reads are left out
		t.Errorf("got %d keys, want %d: %s", got, want, text)
	}
	if got := document["interval"]; got != "1m" {
		t.Errorf("interval: got %v, want 1m", got)
	}
}

func TestASecretsFileIsShownByItsName(t *testing.T) {
	t.Parallel()
	cfg, _ := load(t, "helper: DIR/helper\ntoken_file: DIR/secret\nbroker_provisioning_password: x\n")
	got, problems := decoded(cfg.YAML())
	if len(problems) > 0 || got.TokenFile != cfg.TokenFile || got.Token.IsSet() || got.BrokerPassword.value != Redacted {
		t.Errorf("got token_file %q, token set %v, password %q and %v; want the file, no token and the mask", got.TokenFile, got.Token.IsSet(), got.BrokerPassword.value, problems)
	}
}
