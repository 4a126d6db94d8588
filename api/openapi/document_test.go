package openapi_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/api/edge"
	"weir/api/openapi"
)

// The document of a route says how it is asked, and what it answers.
func ExampleDocument() {
	text, err := openapi.Document([]*edge.Route{{Pattern: "/health", Methods: []string{http.MethodGet}, Open: true}}, "1.0.0")
	if err != nil {
		fmt.Println(err)
		return
	}
	var d struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			ID      string `json:"operationId"`
			Summary string
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.OpenAPI, d.Paths["/health"]["get"].ID, d.Paths["/health"]["get"].Summary)
	// Output: 3.1.0 getHealth 200 once requests are served
}

// everything is the document of all operations that the tables have.
func everything(t *testing.T) map[string]any {
	t.Helper()
	var routes []*edge.Route
	for _, key := range openapi.Keys() {
		method, pattern, _ := strings.Cut(key, " ")
		routes = append(routes, &edge.Route{Pattern: pattern, Methods: []string{method}, Infers: strings.Contains(pattern, "chat")})
	}
	text, err := openapi.Document(routes, "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	var d map[string]any
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestReferencesAreThere: whatever the document refers to is in it, and every operation has a name of its own and a summary.
func TestReferencesAreThere(t *testing.T) {
	d := everything(t)
	refs, ids := 0, map[string]bool{}
	walk(d, func(o map[string]any) {
		if to, ok := o["$ref"].(string); ok {
			refs++
			at := any(d)
			for part := range strings.SplitSeq(strings.TrimPrefix(to, "#/"), "/") {
				inner, _ := at.(map[string]any)
				at = inner[part]
			}
			if at == nil {
				t.Errorf("%s is not there", to)
			}
		}
		if id, ok := o["operationId"].(string); ok {
			if ids[id] || o["summary"] == "" || o["tags"] == nil {
				t.Errorf("operation %s: %v", id, o["summary"])
			}
			ids[id] = true
		}
	})
	if refs < 100 || len(ids) < 60 {
		t.Errorf("only %d references and %d operations", refs, len(ids))
	}
}

func walk(v any, see func(map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		see(v)
		for _, inner := range v {
			walk(inner, see)
		}
	case []any:
		for _, inner := range v {
			walk(inner, see)
		}
	}
}

// TestErrorsHaveTheFormOfTheirAPI: the errors of an operation are those that its path answers with, and those of models, features and
// files that are not there are among them.
func TestErrorsHaveTheFormOfTheirAPI(t *testing.T) {
	d := everything(t)
	responses, _ := d["components"].(map[string]any)["responses"].(map[string]any)
	paths, _ := d["paths"].(map[string]any)
	for _, c := range []struct{ method, path, status, name, kind string }{
		{"post", "/api/chat", "400", "OllamaFault", "application/json"}, {"post", "/api/show", "404", "OllamaFault", "application/json"},
		{"delete", "/api/delete", "501", "OllamaFault", "application/json"}, {"post", "/api/pull", "501", "OllamaFault", "application/json"},
		{"get", "/props", "404", "Fault", "application/json"}, {"post", "/tokenize", "404", "Fault", "application/json"},
		{"post", "/v1/messages/count_tokens", "404", "MessagesFault", "application/json"}, {"get", "/v1/files", "501", "Fault", "application/json"},
		{"get", "/ready", "404", "StateFault", "application/json"}, {"get", "/docs/{file}", "404", "PageFault", "text/plain"},
	} {
		item, _ := paths[c.path].(map[string]any)
		operation, _ := item[c.method].(map[string]any)
		answers, _ := operation["responses"].(map[string]any)
		answer, _ := answers[c.status].(map[string]any)
		to, _ := answer["$ref"].(string)
		text, err := json.Marshal(responses[strings.TrimPrefix(to, "#/components/responses/")])
		if want := `"content":{"` + c.kind + `":{"schema":{"$ref":"#/components/schemas/` + c.name + `"}}}`; err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s %s answers %s with %s, not %s", c.method, c.path, c.status, text, want)
		}
	}
}

// TestFieldsAreReadByTheCode: what requests may have, by the document, is what the readers of api/openai and its neighbours read.
func TestFieldsAreReadByTheCode(t *testing.T) {
	read := namesInCode(t, "../openai/*.go", "../openai/*/*.go", "../messagebatch/*.go", "../batch/*.go", "../predict/*.go", "../completion/*.go")
	if len(read) < 200 {
		t.Fatalf("only %d names found in the code", len(read))
	}
	d := everything(t)
	schemas, _ := d["components"].(map[string]any)["schemas"].(map[string]any)
	for name, s := range schemas {
		if !strings.HasSuffix(name, "Request") && !slices.Contains([]string{"ChatMessage", "ChatTool", "ChatToolChoice", "ChatCall", "Block", "Item"}, name) {
			continue
		}
		fields := 0
		walk(s, func(o map[string]any) {
			properties, _ := o["properties"].(map[string]any)
			for field := range properties {
				if fields++; !read[field] {
					t.Errorf("%s has %s, which no code reads", name, field)
				}
			}
		})
		if fields == 0 {
			t.Errorf("%s has no fields", name)
		}
	}
}

// namesInCode are the texts in quotes of files, which are the names of fields among others.
func namesInCode(t *testing.T, patterns ...string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, p := range patterns {
		files, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					if text, err := strconv.Unquote(l.Value); err == nil {
						names[text] = true
					}
				}
				return true
			})
		}
	}
	return names
}

// TestPageNamesTheSame: docs/api.md lists the fields of a chat, of which the document has all.
func TestPageNamesTheSame(t *testing.T) {
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	properties, _ := everything(t)["components"].(map[string]any)["schemas"].(map[string]any)["ChatRequest"].(map[string]any)["properties"].(map[string]any)
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "- sampling: ") && !strings.HasPrefix(line, "- class and deadlines: ") {
			continue
		}
		for i, name := range strings.Split(line, "`") {
			if i%2 == 1 && !strings.Contains(name, "#") && properties[name] == nil {
				t.Errorf("ChatRequest lacks %s", name)
			}
		}
	}
}
