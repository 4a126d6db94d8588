package api_test

import (
	"fmt"

	"weir/api"
)

// A refusal has the status of its code, the error object of the OpenAI API, and says whether to try again.
func ExampleRefuse() {
	fault := api.Refuse("server_is_overloaded", "1024 requests wait, as many as may; try again later")
	fmt.Println(fault.Status)
	fault.Headers(func(name, value string) { fmt.Println(name+":", value) })
	fmt.Println(string(fault.AppendJSON(nil)))
	// Output:
	// 503
	// X-Weir-Reason: server_is_overloaded
	// X-Should-Retry: true
	// Retry-After: 1
	// Retry-After-Ms: 1000
	// {"error":{"message":"1024 requests wait, as many as may; try again later","type":"service_unavailable_error","param":null,"code":"server_is_overloaded"}}
}

// A listener on loopback answers a browser only for pages that may call it, whatever name they have given its address.
func ExampleAccess_Check() {
	a := api.Access{Loopback: true, Origins: []string{"https://chat.example"}}
	for _, r := range [][2]string{{"localhost:8000", ""}, {"localhost:8000", "https://chat.example"}, {"localhost:8000", "https://evil.example"}, {"evil.example:8000", ""}} {
		if fault := a.Check("POST", r[0], r[1]); fault != nil {
			fmt.Println(fault.Code)
			continue
		}
		fmt.Println("passes")
	}
	// Output:
	// passes
	// passes
	// origin_not_allowed
	// host_not_allowed
}
