package ollama

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
)

const (
	maxTemplateBytes = 64 << 10
	maxRenderedBytes = 4 << 20
)

// message is one of a prompt, as templates see it.
type message struct{ Role, Content string }

// values are what a template of a request may use.
type values struct {
	System, Prompt, Suffix, Response string
	First                            bool
	Messages                         []message
}

// functions of a template: those that neither grow a text nor reach beyond the values.
var functions = map[string]bool{"eq": true, "ne": true, "and": true, "or": true, "not": true, "len": true}

// render executes the client's template on the prompt. It may say no more than conditions and one loop over the messages, so that its time is
// bounded by its length.
func (p *prompt) render() (string, error) {
	if len(p.template) > maxTemplateBytes {
		return "", fmt.Errorf("it has %d bytes; %d are allowed", len(p.template), maxTemplateBytes)
	}
	t, err := template.New("template").Option("missingkey=error").Parse(p.template)
	if err != nil {
		return "", fmt.Errorf("%w; a template is one of Go, with .System, .Prompt, .Suffix and .Messages", err)
	}
	if len(t.Templates()) > 1 {
		return "", errors.New("it defines further templates; put all into one")
	}
	if t.Tree == nil {
		return "", nil
	}
	if err := allowed(t.Root, false); err != nil {
		return "", err
	}
	v := values{System: p.system, Prompt: p.text, Suffix: p.suffix, First: true}
	if p.system != "" {
		v.Messages = append(v.Messages, message{"system", p.system})
	}
	v.Messages = append(v.Messages, message{"user", p.text})
	var text bounded
	if err := t.Execute(&text, v); err != nil {
		return "", err
	}
	return text.String(), nil
}

// bounded is a text of at most maxRenderedBytes.
type bounded struct{ strings.Builder }

// Write implements io.Writer.
func (b *bounded) Write(piece []byte) (int, error) {
	if b.Len()+len(piece) > maxRenderedBytes {
		return 0, fmt.Errorf("what it makes has more than %d bytes", maxRenderedBytes)
	}
	return b.Builder.Write(piece)
}

// allowed refuses what a template may not say. looping: the node stands in a loop.
func allowed(node parse.Node, looping bool) error {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		for _, inner := range n.Nodes {
			if err := allowed(inner, looping); err != nil {
				return err
			}
		}
		return nil
	case *parse.TextNode, *parse.CommentNode:
		return nil
	case *parse.ActionNode:
		return allowedPipe(n.Pipe)
	case *parse.IfNode:
		return errors.Join(allowedPipe(n.Pipe), allowed(n.List, looping), allowed(n.ElseList, looping))
	case *parse.WithNode:
		return errors.Join(allowedPipe(n.Pipe), allowed(n.List, looping), allowed(n.ElseList, looping))
	case *parse.RangeNode:
		if looping || n.Pipe.String() != ".Messages" && !strings.HasSuffix(n.Pipe.String(), ":= .Messages") {
			return fmt.Errorf("range over %s is not supported; .Messages is, once", n.Pipe)
		}
		return errors.Join(allowed(n.List, true), allowed(n.ElseList, looping))
	}
	return fmt.Errorf("%.40q is not supported", node.String())
}

func allowedPipe(p *parse.PipeNode) error {
	for _, command := range p.Cmds {
		for _, arg := range command.Args {
			switch n := arg.(type) {
			case *parse.IdentifierNode:
				if !functions[n.Ident] {
					return fmt.Errorf("the function %s is not supported", n.Ident)
				}
			case *parse.PipeNode:
				if err := allowedPipe(n); err != nil {
					return err
				}
			case *parse.ChainNode:
				return fmt.Errorf("%.40q is not supported", n.String())
			}
		}
	}
	return nil
}
