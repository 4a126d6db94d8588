package answer

// ItemKind is what one part of an answer in the order of its parts holds: an item of a response, or a block of a message.
type ItemKind int

// The kinds of items.
const (
	NoItem ItemKind = iota
	ThoughtItem
	MessageItem
	CallItem
	InputItem // a call of a custom tool
)
