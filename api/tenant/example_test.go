package tenant_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/api/tenant"
)

// Who calls is what a key proves. A server that has none asks for nothing.
func Example() {
	acme := tenant.New("acme")
	acme.Models = []string{"llama"}
	d, err := tenant.NewDirectory([]tenant.Tenant{acme})
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := tenant.NewAuthenticator(context.Background(), tenant.Config{Directory: d, StaticKeys: []string{"a key of a setting"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, secret := range []string{"a key of a setting", "another one", ""} {
		caller, err := a.Identify(tenant.Proof{Secret: secret}, now)
		if denied, ok := errors.AsType[*tenant.Denied](err); ok {
			fmt.Println("denied:", denied.Reason)
			continue
		}
		fmt.Println(caller.Scope, caller.MayUse("llama"), err)
	}
	// Output:
	// inference,metrics true <nil>
	// denied: the key is unknown
	// denied: no key, token or certificate was shown
}

// The store has a key's hash. Who has the pepper recognises a key by it, and can make new ones.
func ExamplePepper() {
	p, err := tenant.NewPepper([]byte("32 random bytes, apart from keys"))
	if err != nil {
		fmt.Println(err)
		return
	}
	issued := p.Issue()
	id, hash, err := p.Open(issued.Text)
	fmt.Println(id == issued.ID, hash.Equal(issued.Hash), err)
	_, _, err = p.Open("weir_1h8tz0kq4m_Vb3abcdefghijklmnopqrstuTTTTTTCCCCCC")
	fmt.Println(err != nil)
	// Output:
	// true true <nil>
	// true
}
