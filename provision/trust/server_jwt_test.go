package trust

import (
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/choria-io/tokens"
	"github.com/google/go-cmp/cmp"

	"choria-provision/config"
)

// organization is an issuer, a provisioner it made a chain issuer, and a node.
type organization struct {
	issuer, provisioner, node ed25519.PublicKey
	issuerKey, signingKey     ed25519.PrivateKey
	config                    *config.Config
}

func newOrganization(t *testing.T) *organization {
	t.Helper()
	o := &organization{config: config.Default()}
	o.issuer, o.issuerKey = newKey(t)
	o.provisioner, o.signingKey = newKey(t)
	o.node, _ = newKey(t)
	o.config.JWTSigningKey = writeFile(t, hex.EncodeToString(o.signingKey.Seed()))
	o.config.JWTSigningToken = writeFile(t, o.clientToken(t, o.provisioner, 10*365*24*time.Hour, true))
	return o
}

func (o *organization) clientToken(t *testing.T, key ed25519.PublicKey, validity time.Duration, chain bool) string {
	t.Helper()
	claims, err := tokens.NewClientIDClaims("choria=provisioner", nil, "choria", nil, "", "", validity, nil, key)
	if err != nil {
		t.Fatal(err)
	}
	if chain {
		if err := claims.AddOrgIssuerData(o.issuerKey); err != nil {
			t.Fatal(err)
		}
	}
	token, err := tokens.SignToken(claims, o.issuerKey)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// answer holds the parts of a helper's answer that matter to a server JWT.
type answer struct {
	Configuration map[string]string
	ServerClaims  *tokens.ServerClaims
}

// settings is a configuration without defaults.
type settings map[string]string

func (s settings) Setting(key string) string { return strings.TrimSpace(s[key]) }

func (s settings) List(key string) []string {
	return strings.FieldsFunc(s[key], func(r rune) bool { return r == ',' || r == ' ' })
}

func (o *organization) request(a answer) ServerJWTRequest {
	return ServerJWTRequest{Identity: "n1", PublicKey: o.node, Config: o.config, Settings: settings(a.Configuration), Claims: a.ServerClaims}
}

func (o *organization) settings() map[string]string {
	return map[string]string{"identity": "n1", ProviderKey: "choria", IssuersKey: "choria", IssuerKey("choria"): hex.EncodeToString(o.issuer)}
}

func TestServerJWTIsGoodForItsOrganization(t *testing.T) {
	t.Parallel()
	o := newOrganization(t)
	token, warnings, err := IssueServerJWT(o.request(answer{Configuration: o.settings()}))
	if err != nil || len(warnings) > 0 {
		t.Fatalf("got error %v and warnings %q, want none", err, warnings)
	}
	claims, err := tokens.ParseServerToken(token, o.issuer)
	if err != nil {
		t.Fatalf("the issuer's key does not verify it: %v", err)
	}
	if ok, err := claims.IsMatchingPublicKey(o.node); !ok || err != nil {
		t.Errorf("got a token for another key (%v), want the node's", err)
	}
	if valid, signer, err := claims.IsSignedByIssuer(o.issuer); !valid || !signer.Equal(o.provisioner) {
		t.Errorf("chain: got %v, signer %x, error %v, want the provisioner", valid, signer, err)
	}
	other, _ := newKey(t)
	if _, err := tokens.ParseServerToken(token, other); err == nil {
		t.Errorf("another key verifies it")
	}
}

func TestServerJWTWithoutChainIsSignedByItsKey(t *testing.T) {
	t.Parallel()
	o := newOrganization(t)
	o.config.JWTSigningToken = ""
	token, warnings, err := IssueServerJWT(o.request(answer{Configuration: map[string]string{"a": "b"}}))
	if err != nil || len(warnings) > 0 {
		t.Fatalf("got error %v and warnings %q, want none", err, warnings)
	}
	claims, err := tokens.ParseServerToken(token, o.provisioner)
	if err != nil || claims.Issuer != TokenIssuer {
		t.Errorf("got error %v and claims %+v, want ours", err, claims)
	}

	o.config.JWTSigningKey = writeFile(t, rsaPEM(rsaKey()))
	token, _, err = IssueServerJWT(o.request(answer{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.ParseServerToken(token, rsaKey().Public()); err != nil {
		t.Errorf("RSA: got error %v, want none", err)
	}
}

func TestClaimsFollowPrecedence(t *testing.T) {
	t.Parallel()
	permissions := &tokens.ServerPermissions{Submission: true}
	tests := []struct {
		name     string
		settings map[string]string
		claims   *tokens.ServerClaims
		want     tokens.ServerClaims
	}{
		{"defaults", nil, nil, tokens.ServerClaims{Collectives: []string{"mcollective"}, OrganizationUnit: "choria"}},
		{"provider", map[string]string{ProviderKey: "choria"}, nil,
			tokens.ServerClaims{Collectives: []string{"choria"}, OrganizationUnit: "choria"}},
		{"configuration", map[string]string{ProviderKey: "choria", "collectives": "a, b ,,c"}, nil,
			tokens.ServerClaims{Collectives: []string{"a", "b", "c"}, OrganizationUnit: "choria"}},
		{"collectives without a name", map[string]string{"collectives": " , "}, nil,
			tokens.ServerClaims{Collectives: []string{"mcollective"}, OrganizationUnit: "choria"}},
		{"claims", map[string]string{"collectives": "a"}, &tokens.ServerClaims{Collectives: []string{"x"}, OrganizationUnit: "acme", Permissions: permissions, AdditionalPublishSubjects: []string{"reg.>"}},
			tokens.ServerClaims{Collectives: []string{"x"}, OrganizationUnit: "acme", Permissions: permissions, AdditionalPublishSubjects: []string{"reg.>"}}},
		{"claims for another node, key and issuer", nil, &tokens.ServerClaims{ChoriaIdentity: "n2", StandardClaims: tokens.StandardClaims{PublicKey: otherHex, TrustChainSignature: "x"}},
			tokens.ServerClaims{Collectives: []string{"mcollective"}, OrganizationUnit: "choria"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOrganization(t)
			o.config.JWTSigningToken = ""
			token, _, err := IssueServerJWT(o.request(answer{Configuration: tt.settings, ServerClaims: tt.claims}))
			if err != nil {
				t.Fatal(err)
			}
			got, err := tokens.ParseServerToken(token, o.provisioner)
			if err != nil {
				t.Fatal(err)
			}
			if got.PublicKey != hex.EncodeToString(o.node) || got.TrustChainSignature != "" {
				t.Errorf("got key %s and chain %q, want the node's and none", got.PublicKey, got.TrustChainSignature)
			}
			tt.want.ChoriaIdentity = "n1"
			got.StandardClaims = tokens.StandardClaims{}
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidityFollowsPrecedence(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	tests := []struct {
		name       string
		configured time.Duration
		exp        time.Duration // from now; 0: not asked for
		chain      time.Duration // 0: no chain
		want       time.Duration
		warns      string
	}{
		{"default", 365 * day, 0, 0, 365 * day, ""},
		{"configured", 30 * day, 0, 0, 30 * day, ""},
		{"asked for", 30 * day, 7 * day, 0, 7 * day, ""},
		{"asked for more", 30 * day, 3650 * day, 0, 3650 * day, ""},
		{"asked for an hour", 30 * day, time.Hour, 0, 30 * day, "exp is less than"},
		{"asked for the past", 30 * day, -day, 0, 30 * day, "exp is less than"},
		{"configured an hour", time.Hour, 0, 0, time.Hour, ""},
		{"configured minutes", 10 * time.Minute, 0, 0, 10 * time.Minute, ""},
		{"asked for an hour, configured less", 30 * time.Minute, time.Hour, 0, 30 * time.Minute, "exp is less than"},
		{"chain ends sooner", 365 * day, 0, 90 * day, 90 * day, "ends with jwt_signing_token"},
		{"chain ends later", 365 * day, 0, 3650 * day, 365 * day, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOrganization(t)
			o.config.ServerJWTValidity.Duration = tt.configured
			verify := o.provisioner
			o.config.JWTSigningToken = ""
			if tt.chain > 0 {
				verify = o.issuer
				o.config.JWTSigningToken = writeFile(t, o.clientToken(t, o.provisioner, tt.chain, true))
			}
			a := answer{}
			if tt.exp != 0 {
				a.ServerClaims = expiring(t, unixIn(tt.exp))
			}
			token, warnings, err := IssueServerJWT(o.request(a))
			if err != nil {
				t.Fatal(err)
			}
			claims, err := tokens.ParseServerToken(token, verify)
			if err != nil {
				t.Fatal(err)
			}
			if got := time.Until(claims.ExpireTime()); got > tt.want+time.Minute || got < tt.want-time.Minute {
				t.Errorf("got a validity of %s, want %s", got, tt.want)
			}
			if (len(warnings) > 0) != (tt.warns != "") || !strings.Contains(strings.Join(warnings, ""), tt.warns) {
				t.Errorf("got warnings %q, want %q", warnings, tt.warns)
			}
		})
	}
}

// with returns settings with changes; an empty value takes a key away.
func with(settings map[string]string, changes ...string) map[string]string {
	settings = maps.Clone(settings)
	for i := 0; i < len(changes); i += 2 {
		settings[changes[i]] = changes[i+1]
		if changes[i+1] == "" {
			delete(settings, changes[i])
		}
	}
	return settings
}

// expiring returns the claims that a helper writes with this exp.
func expiring(t *testing.T, exp string) (claims *tokens.ServerClaims) {
	t.Helper()
	if err := json.Unmarshal([]byte(`{"exp":`+exp+`}`), &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

func unixIn(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }

func TestTokensThatBrokersWouldRejectAreNotIssued(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*testing.T, *organization, *ServerJWTRequest)
		says   string
	}{
		{"no key of the node", func(_ *testing.T, _ *organization, r *ServerJWTRequest) { r.PublicKey = nil }, "no ed25519 key"},
		{"no signing key", func(_ *testing.T, o *organization, _ *ServerJWTRequest) { o.config.JWTSigningKey = "" }, "jwt_signing_key: is not set"},
		{"signing key that is gone", func(_ *testing.T, o *organization, _ *ServerJWTRequest) { o.config.JWTSigningKey = "/nonexistent" }, "jwt_signing_key: /nonexistent does not exist"},
		{"signing key of nonsense", func(t *testing.T, o *organization, _ *ServerJWTRequest) {
			o.config.JWTSigningKey = writeFile(t, "s3cret")
		}, "holds no ed25519 seed"},
		{"signing token that is gone", func(_ *testing.T, o *organization, _ *ServerJWTRequest) { o.config.JWTSigningToken = "/nonexistent" }, "jwt_signing_token: /nonexistent does not exist"},
		{"signing token of nonsense", func(t *testing.T, o *organization, _ *ServerJWTRequest) { o.config.JWTSigningToken = writeFile(t, "x") }, "holds no client token"},
		{"signing token without chain", func(t *testing.T, o *organization, _ *ServerJWTRequest) {
			o.config.JWTSigningToken = writeFile(t, o.clientToken(t, o.provisioner, time.Hour, false))
		}, "no trust chain signature"},
		{"signing token of another key", func(t *testing.T, o *organization, _ *ServerJWTRequest) {
			o.config.JWTSigningToken = writeFile(t, o.clientToken(t, o.node, time.Hour, true))
		}, "belongs to another key"},
		{"expired signing token", func(t *testing.T, o *organization, _ *ServerJWTRequest) {
			o.config.JWTSigningToken = writeFile(t, o.clientToken(t, o.provisioner, -time.Hour, true))
		}, "expired at"},
		{"RSA in a chain", func(t *testing.T, o *organization, _ *ServerJWTRequest) {
			o.config.JWTSigningKey = writeFile(t, rsaPEM(rsaKey()))
		}, "needs an ed25519 key"},
		{"issuer network without chain", func(_ *testing.T, o *organization, _ *ServerJWTRequest) { o.config.JWTSigningToken = "" }, "jwt_signing_token must be set"},
		{"chain of another issuer", func(_ *testing.T, _ *organization, r *ServerJWTRequest) {
			r.Settings.(settings)[IssuerKey("choria")] = otherHex
		}, "would not accept it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOrganization(t)
			r := o.request(answer{Configuration: o.settings()})
			tt.change(t, o, &r)
			token, _, err := IssueServerJWT(r)
			if token != "" || err == nil {
				t.Errorf("got token %q and error %v, want an error", token, err)
			}
			wantCause(t, err, ErrSigning, tt.says)
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %q, want no secret in it", err)
			}
		})
	}
}

func TestIssuerMaySignItself(t *testing.T) {
	t.Parallel()
	o := newOrganization(t)
	o.config.JWTSigningToken = ""
	o.config.JWTSigningKey = writeFile(t, hex.EncodeToString(o.issuerKey.Seed())+"\n")
	if _, warnings, err := IssueServerJWT(o.request(answer{Configuration: o.settings()})); err != nil || len(warnings) > 0 {
		t.Errorf("got error %v and warnings %q, want none", err, warnings)
	}
}

func TestDoubtfulTokensAreWarnedOf(t *testing.T) {
	t.Parallel()
	o := newOrganization(t)
	signers := with(o.settings(), IssuersKey, "", IssuerKey("choria"), "")
	tests := []struct {
		name   string
		answer answer
		warns  string
	}{
		{"unknown organization", answer{Configuration: o.settings(), ServerClaims: &tokens.ServerClaims{OrganizationUnit: "acme"}}, `ou "acme" is none of`},
		{"untrusted signer", answer{Configuration: with(signers, SignersKey, otherHex)}, "none of " + SignersKey},
		{"trusted signer", answer{Configuration: with(signers, SignersKey, otherHex+","+hex.EncodeToString(o.issuer))}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, warnings, err := IssueServerJWT(o.request(tt.answer))
			if got := strings.Join(warnings, ""); err != nil || (got != "") != (tt.warns != "") || !strings.Contains(got, tt.warns) {
				t.Errorf("got error %v and warnings %q, want %q", err, warnings, tt.warns)
			}
		})
	}
}

func TestRotatedSigningKeyIsPickedUp(t *testing.T) {
	t.Parallel()
	o := newOrganization(t)
	o.config.JWTSigningToken = ""
	public, private := newKey(t)
	if err := os.WriteFile(o.config.JWTSigningKey, []byte(hex.EncodeToString(private.Seed())), 0o600); err != nil {
		t.Fatal(err)
	}
	token, _, err := IssueServerJWT(o.request(answer{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.ParseServerToken(token, public); err != nil {
		t.Errorf("got error %v, want the new key to verify it", err)
	}
}

// The old sample helper of an Organization Issuer gives a duration.
func TestExpiryThatIsADurationIsExplained(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, exp  string
		configured time.Duration
		want       string
	}{
		{"five years in seconds", "157680000", 365 * 24 * time.Hour,
			"server_claims: exp is less than 1 hour away: it is a time in seconds since 1970, and 157680000 is 1974-12-31T00:00:00Z; the server JWT is valid for 365 days instead"},
		{"an hour in seconds", "3600", 36 * time.Hour,
			"server_claims: exp is less than 1 hour away: it is a time in seconds since 1970, and 3600 is 1970-01-01T01:00:00Z; the server JWT is valid for 36 hours instead"},
		{"a date in the past", "1577836800", 90 * time.Minute,
			"server_claims: exp is less than 1 hour away: it is a time in seconds since 1970, and 1577836800 is 2020-01-01T00:00:00Z; the server JWT is valid for 90 minutes instead"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := newOrganization(t)
			o.config.ServerJWTValidity.Duration = tt.configured
			a := answer{Configuration: o.settings(), ServerClaims: expiring(t, tt.exp)}
			_, warnings, err := IssueServerJWT(o.request(a))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.want}, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDurationsAreToldInWords(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		365 * 24 * time.Hour: "365 days", 24 * time.Hour: "1 day", 36 * time.Hour: "36 hours", time.Hour: "1 hour",
		90 * time.Minute: "90 minutes", time.Minute: "1 minute", 90*time.Second + time.Millisecond: "1m30s", 0: "0s",
	} {
		if got := inWords(d); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}
