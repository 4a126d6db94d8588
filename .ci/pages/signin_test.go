package pages

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oauth2-proxy/mockoidc"
)

// People sign in at an issuer that is not ours: the browser is led there and comes back, the token stays in the tab, and the code in no
// history. What comes back of a sign-in that this tab has not begun is not taken.
func TestSignIn(t *testing.T) {
	t.Parallel()
	issuer, err := mockoidc.Run()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = issuer.Shutdown() })
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret := write("secret", issuer.ClientSecret)
	config := write("weir.yml", fmt.Sprintf(`tenants:
  - name: acme
    claims:
      - {issuer: login, claim: groups, value: acme-users}
issuers:
  - name: login
    url: %s
    audiences: [%s]
    scope_claim: groups
    client_id: %s
    client_secret_file: %s
    sign_in_scopes: [groups]
`, issuer.Issuer(), issuer.ClientID, issuer.ClientID, secret))
	weir, admin := serveBoth(t, "--config", config)
	host, err := url.Parse(issuer.Issuer())
	if err != nil {
		t.Fatal(err)
	}
	user := func(groups ...string) {
		issuer.QueueUser(&mockoidc.MockUser{Subject: "ann", Email: "ann@acme.example", Groups: groups})
	}
	for page, base := range map[string]string{"console": admin, "playground": weir} {
		p := open(t, base, "/"+page+"/", "another host: http://"+host.Host, "401")
		user("acme-users", "weir:admin", "weir:inference")
		p.click("Sign in with login")
		p.wait(`document.querySelector(".shell")`)
		if at := evaluate[string](p, "location.href"); at != base+"/"+page+"/" {
			t.Errorf("%s: the page is at %s", page, at)
		}
		token := evaluate[string](p, `sessionStorage.getItem("weir.key")`)
		if kept := evaluate[string](p, "JSON.stringify(localStorage) + document.cookie"); token == "" || strings.Contains(kept, token) {
			t.Errorf("%s: the token %.20q stays in the browser: %.200s", page, token, kept)
		}
	}
	p := open(t, admin, "/console/?code=stolen&state=of-another", "another host: http://"+host.Host, "401", "403")
	p.sees("was not begun in this tab")
	user("acme-users", "weir:inference")
	p.click("Sign in with login")
	p.sees("This key may not do that")
	user("strangers")
	p.script(`sessionStorage.removeItem("weir.key"); location.reload()`)
	p.click("Sign in with login")
	p.sees("who signed in is no caller of this server")
}
