package jsonbody

// Null is JSON for nothing; never changed.
var Null = []byte("null")
