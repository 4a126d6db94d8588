package chat

import (
	"slices"
	"strings"
)

// Message is the simplest message: a role and a text.
type Message struct{ Role, Content string }

// Messages makes the Messages of an Input; the texts are client text.
func Messages(messages ...Message) Value {
	items := make([]Value, len(messages))
	for i, m := range messages {
		d := &dict{}
		d.putText("role", clientText(m.Role))
		d.putText("content", clientText(m.Content))
		items[i] = Value{kind: kindDict, client: true, ref: d}
	}
	return Value{kind: kindList, client: true, ref: &list{items: items}}
}

// JoinParts replaces content that is a list of text parts by one string, the
// texts joined by newlines, for templates that read content as a string. A part
// of another type is an error that names the type and the message.
func JoinParts(messages Value) (Value, error) {
	if messages.kind != kindList {
		return Value{}, invalid("messages must be a list")
	}
	items := slices.Clone(messages.items())
	for i, m := range items {
		content, ok := m.field("content")
		if !ok || content.kind != kindList {
			continue
		}
		text, err := joinedParts(content.items(), i)
		if err != nil {
			return Value{}, err
		}
		items[i] = m.withField("content", text)
	}
	messages.ref = &list{items: items}
	return messages, nil
}

func joinedParts(parts []Value, message int) (Value, error) {
	w := newBuilder(newBudget(Options{}.withDefaults()))
	for i, part := range parts {
		kind, _ := part.field("type")
		text, ok := part.field("text")
		if kind.str != "text" || !ok || !text.isString() {
			return Value{}, invalid("messages[%d].content[%d] is of type %q; this model takes text parts only", message, i, kind.str)
		}
		if i > 0 {
			w.write("\n", true)
		}
		w.writeText(text)
	}
	return w.value()
}

// field looks a key of an object up.
func (v Value) field(name string) (Value, bool) {
	if v.kind != kindDict {
		return Value{}, false
	}
	return v.dict().text(name)
}

// withField is a copy of an object with one key changed.
func (v Value) withField(name string, value Value) Value {
	d := v.dict().clone()
	d.putText(name, value)
	v.ref = d
	return v
}

// continueTag is appended to the last message's text to find its end in the
// prompt. The space at its end shows whether the template strips the text.
const continueTag = "\U000F57A6weir-continues-here\U000F57A6 "

// tagLast appends the tag to the text of the last message.
func tagLast(messages Value) (Value, error) {
	items := slices.Clone(messages.items())
	if len(items) == 0 {
		return Value{}, invalid("continue_final_message needs a message to continue")
	}
	last := items[len(items)-1]
	content, ok := last.field("content")
	tagged, found := tagText(content)
	if !ok || !found {
		return Value{}, invalid("continue_final_message needs text in the last message's content")
	}
	items[len(items)-1] = last.withField("content", tagged)
	messages.ref = &list{items: items}
	return messages, nil
}

// tagText tags a text, or the last text of a list of parts.
func tagText(content Value) (Value, bool) {
	if content.isString() {
		return clientText(content.str + continueTag), true
	}
	if content.kind != kindList {
		return Value{}, false
	}
	parts := slices.Clone(content.items())
	for i := len(parts) - 1; i >= 0; i-- {
		text, ok := parts[i].field("text")
		if !ok || !text.isString() {
			continue
		}
		parts[i] = parts[i].withField("text", clientText(text.str+continueTag))
		content.ref = &list{items: parts}
		return content, true
	}
	return Value{}, false
}

// cutAtTag ends the prompt where the tag is, without the white space before it
// if the template stripped the tag's own.
func cutAtTag(text Value) (Value, error) {
	stripped := strings.TrimSpace(continueTag)
	i := strings.LastIndex(text.str, stripped)
	if i < 0 {
		return Value{}, invalid("continue_final_message: the template does not write the last message's content as it is")
	}
	if !strings.HasPrefix(text.str[i:], continueTag) {
		i = len(strings.TrimRightFunc(text.str[:i], isSpace))
	}
	return text.slice(0, i), nil
}
