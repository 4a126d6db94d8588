package openai_test

import (
	"context"
	"fmt"

	"github.com/valyala/fasthttp"

	"weir/api/edge"
	"weir/api/openai"
	"weir/api/openai/models"
	"weir/api/tenant"
	"weir/router/fleet"
)

// The server answers before it has models; SetModels makes it ready. Where requests go from the listener is a Mux.
func Example() {
	callers, err := tenant.NewAuthenticator(context.Background(), tenant.Config{}) // asks for no key
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := openai.New(openai.DefaultConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := edge.NewMux(edge.MuxConfig{Callers: callers}, s)
	get := func(path string) {
		var ctx fasthttp.RequestCtx
		ctx.Request.Header.SetRequestURI(path)
		mux.Handle(&ctx)
		fmt.Println(ctx.Response.StatusCode(), string(ctx.Response.Body()))
	}
	get("/ready")
	f, err := fleet.New(fleet.Config{Model: "llama", Sources: []fleet.Source{{URL: "http://127.0.0.1:8001/v1"}}}) // or an engine
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	if err := s.SetModels(&models.Model{ID: "llama", Aliases: []string{"gpt-4o"}, Created: 1_772_366_400, Upstream: f}); err != nil {
		fmt.Println(err)
		return
	}
	get("/v1/models/gpt-4o")
	// Output:
	// 503 {"status":"loading"}
	//
	// 200 {"id":"llama","object":"model","created":1772366400,"owned_by":"weir"}
}
