package priority_test

import (
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api/openai/jsonbody"
	"weir/api/openai/priority"
	"weir/api/tenant"
	"weir/internal/inference"
)

// A tenant whose requests are of the default class at most asks for a higher one, and for an answer within five seconds.
func Example() {
	o, fault := jsonbody.Parse([]byte(`{"service_tier": "priority", "deadline_ms": 5000}`), false)
	if fault != nil {
		panic(fault)
	}
	acme := tenant.New("acme")
	acme.HighestClass = inference.Default
	arrived := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	terms, fault := priority.Reader{Header: new(fasthttp.RequestHeader), Arrived: arrived}.Read(o, &acme)
	fmt.Println(terms.Class, terms.Tier, terms.DoneBy.Sub(arrived), fault == nil)
	fmt.Println(o.Notes.Header())
	// Output:
	// default default 5s true
	// service_tier lowered to class default, the highest of the tenant
}
