package trust

import (
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/choria-io/tokens"

	"choria-provision/config"
)

const (
	// TokenIssuer is the issuer claim of server JWTs outside a chain of trust.
	TokenIssuer = "Choria Provision"
	defaultOrg  = "choria"

	// shortValidity is the longest requested validity that is ignored in favor
	// of the configured one.
	shortValidity = time.Hour
)

// Settings reads the configuration that a node receives, as the node will read
// it: with go-choria's defaults for absent keys.
type Settings interface {
	Setting(key string) string
	List(key string) []string // the elements between commas
}

// ServerJWTRequest holds the inputs of a server JWT.
type ServerJWTRequest struct {
	Identity  string
	PublicKey ed25519.PublicKey // of a key pair that the node proved to hold
	Config    *config.Config
	Settings  Settings
	Claims    *tokens.ServerClaims // those that the helper asked for; nil: none
}

// IssueServerJWT signs the token with which a node joins its organization, bound
// to the node's key. It reads signing key and chain token at each call, so that
// rotated ones count at once. It refuses a token that the issuers in the node's
// configuration would reject, because their brokers would reject the node.
// Errors unwrap to ErrSigning.
func IssueServerJWT(r ServerJWTRequest) (token string, warnings []string, err error) {
	token, warnings, err = r.issue(time.Now())
	if err != nil {
		return "", warnings, fmt.Errorf("%w: %w", ErrSigning, err)
	}
	return token, warnings, nil
}

func (r ServerJWTRequest) issue(now time.Time) (token string, warnings []string, err error) {
	if len(r.PublicKey) != ed25519.PublicKeySize {
		return "", nil, errors.New("there is no ed25519 key of the node to bind it to")
	}
	key, err := ReadSigningKey(r.Config.JWTSigningKey)
	if err != nil {
		return "", nil, fmt.Errorf("jwt_signing_key: %w", err)
	}
	claims, warnings, err := r.claims(now)
	if err != nil {
		return "", warnings, err
	}
	if r.Config.JWTSigningToken != "" {
		warning, err := addChain(claims, key, r.Config.JWTSigningToken)
		if err != nil {
			return "", warnings, err
		}
		warnings = append(warnings, warning...)
	}
	if token, err = tokens.SignToken(claims, key); err != nil {
		return "", warnings, err
	}
	warning, err := r.acceptable(token, claims.OrganizationUnit)
	return token, append(warnings, warning...), err
}

// claims applies defaults, then the helper's configuration, then its
// server_claims.
func (r ServerJWTRequest) claims(now time.Time) (*tokens.ServerClaims, []string, error) {
	wanted := r.Claims
	if wanted == nil {
		wanted = &tokens.ServerClaims{}
	}
	org := wanted.OrganizationUnit
	if org == "" {
		org = defaultOrg
	}
	validity, warnings := r.validity(wanted, now)
	claims, err := tokens.NewServerClaims(r.Identity, r.collectives(wanted), org, wanted.Permissions,
		wanted.AdditionalPublishSubjects, r.PublicKey, TokenIssuer, validity)
	return claims, warnings, err
}

func (r ServerJWTRequest) collectives(wanted *tokens.ServerClaims) []string {
	configured := r.Settings.List("collectives")
	switch {
	case len(wanted.Collectives) > 0:
		return wanted.Collectives
	case len(configured) > 0:
		return configured
	case r.Settings.Setting(ProviderKey) == "choria":
		return []string{"choria"}
	default:
		return []string{"mcollective"}
	}
}

func (r ServerJWTRequest) validity(wanted *tokens.ServerClaims, now time.Time) (validity time.Duration, warnings []string) {
	validity = r.Config.ServerJWTValidity.Duration
	if wanted.ExpiresAt == nil {
		return validity, warnings
	}
	if asked := wanted.ExpiresAt.Sub(now); asked > shortValidity {
		return asked, warnings
	}
	return validity, append(warnings, fmt.Sprintf(
		"server_claims: exp is less than %s away: it is a time in seconds since 1970, and %d is %s; the server JWT is valid for %s instead",
		inWords(shortValidity), wanted.ExpiresAt.Unix(), wanted.ExpiresAt.UTC().Format(time.RFC3339), inWords(validity)))
}

// inWords formats a duration in one unit where that is exact.
func inWords(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		switch number := d / unit.length; {
		case number == 0 || d%unit.length != 0:
		case number == 1:
			return "1 " + unit.name
		default:
			return fmt.Sprintf("%d %ss", number, unit.name)
		}
	}
	return d.Round(time.Second).String()
}

// acceptable verifies the token with the issuers in the node's configuration, as
// a broker of that organization would.
func (r ServerJWTRequest) acceptable(token, org string) (warnings []string, err error) {
	issuers := r.Settings.List(IssuersKey)
	if len(issuers) == 0 {
		return r.acceptableToSigners(token), nil
	}
	if !slices.Contains(issuers, org) {
		return []string{fmt.Sprintf("server_claims: ou %q is none of %s in the configuration: brokers that know the same issuers will refuse the server JWT", org, IssuersKey)}, nil
	}
	issuer, err := decodeHex(r.Settings.Setting(IssuerKey(org)), ed25519.PublicKeySize)
	if err != nil {
		return nil, fmt.Errorf("configuration: %s %w", IssuerKey(org), err)
	}
	if _, err := tokens.ParseServerToken(token, ed25519.PublicKey(issuer)); err != nil {
		advice := "is jwt_signing_token from this issuer?"
		if r.Config.JWTSigningToken == "" {
			advice = "jwt_signing_key is not the issuer's own, so jwt_signing_token must be set"
		}
		return nil, fmt.Errorf("the issuer %q in the node's configuration would not accept it: %w; %s", org, err, advice)
	}
	return nil, nil
}

func (r ServerJWTRequest) acceptableToSigners(token string) (warnings []string) {
	signers := r.Settings.List(SignersKey)
	for _, signer := range signers {
		key, err := decodeHex(signer, ed25519.PublicKeySize)
		if err != nil {
			continue
		}
		if _, err := tokens.ParseServerToken(token, ed25519.PublicKey(key)); err == nil {
			return nil
		}
	}
	if len(signers) > 0 {
		return []string{fmt.Sprintf("none of %s in the configuration signed the server JWT: brokers that trust the same ones will refuse it", SignersKey)}
	}
	return nil
}

// addChain makes the token part of a chain of trust. tokenFile holds our own
// token, which proves that the Organization Issuer made us an issuer.
func addChain(claims *tokens.ServerClaims, key crypto.Signer, tokenFile string) (warnings []string, err error) {
	ours, err := ReadSigningToken(tokenFile, key)
	switch {
	case err != nil:
		return nil, fmt.Errorf("jwt_signing_token: %w", err)
	case ours.IsExpired():
		return nil, fmt.Errorf("jwt_signing_token: %s expired at %s", tokenFile, ours.ExpireTime().Format(time.RFC3339))
	}
	asked := claims.ExpireTime()
	if err := claims.AddChainIssuerData(ours, key.(ed25519.PrivateKey)); err != nil {
		return nil, fmt.Errorf("jwt_signing_token: adding the chain data of %s: %w", tokenFile, err)
	}
	if got := claims.ExpireTime(); got.Before(asked) {
		warnings = append(warnings, fmt.Sprintf("the server JWT ends with jwt_signing_token at %s", got.Format(time.RFC3339)))
	}
	return warnings, nil
}
