package chat

import "errors"

// Value is what a template computes with: none, booleans, numbers, strings
// whose bytes are marked as the client's or the template's, lists, ordered
// maps. Values are immutable. The zero Value means "not given".
type Value struct {
	str string
}

// FromJSON reads one JSON value as client data: objects keep their key order,
// integers stay integers of any size, every string (keys too) is client text.
func FromJSON(data []byte) (Value, error) {
	return Value{}, errors.New("chat values are not built yet")
}

// Message is the simplest message: a role and a text.
type Message struct{ Role, Content string }

// Messages makes the Messages of an Input; the texts are client text.
func Messages(messages ...Message) Value { return Value{} }

// JoinParts gives messages whose content is a list of text parts their texts
// joined by newlines as content. A part of another type is an error.
func JoinParts(messages Value) (Value, error) { return messages, nil }
