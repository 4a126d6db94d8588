package tenant

import (
	"crypto/x509"
	"strings"
)

// certificateKinds begin the names under which a client certificate is known.
var certificateKinds = []string{"uri:", "dns:", "email:", "cn:"}

func isCertificateName(name string) bool {
	for _, kind := range certificateKinds {
		if rest, found := strings.CutPrefix(name, kind); found {
			return rest != ""
		}
	}
	return false
}

// CertificateNames are the names of a client certificate, as Tenant.Certificates
// has them: its subject alternative names as "uri:spiffe://…", "dns:host" and
// "email:who@host", and its subject's common name as "cn:name". A name never stands
// for one of another kind.
func CertificateNames(c *x509.Certificate) []string {
	var names []string
	for _, u := range c.URIs {
		names = append(names, "uri:"+u.String())
	}
	for _, n := range c.DNSNames {
		names = append(names, "dns:"+n)
	}
	for _, a := range c.EmailAddresses {
		names = append(names, "email:"+a)
	}
	if c.Subject.CommonName != "" {
		names = append(names, "cn:"+c.Subject.CommonName)
	}
	return names
}
