// Clients speaks for a Go client library, in lines of JSON: the tests write a question to its
// standard input and read the answer from its standard output.
//
//	clients franz-go
//	{"command": "open_producer", "address": "127.0.0.1:9092", "options": {...}}   what is asked
//	{"answer": 1}                                                                 a handle
//	{"command": "send", "handle": 1, "topic": "t", "records": [...]}
//	{"refused": "MESSAGE_TOO_LARGE", "text": "..."}                               Kafka's name for it
//
// tests/support/foreign_client.py is the other end.  It ends where its input ends.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
)

var libraries = map[string]library{"franz-go": franz{}, "sarama": saramas{}}

func main() {
	if len(os.Args) != 2 || libraries[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: clients franz-go|sarama")
		os.Exit(2)
	}
	if err := converse(libraries[os.Args[1]], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func converse(spoken library, input io.Reader, output io.Writer) error {
	lines, answers := bufio.NewReader(input), json.NewEncoder(output)
	opened := desk{library: spoken, open: map[int]any{}}
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var asked question
		if err := json.Unmarshal(line, &asked); err != nil {
			return err
		}
		told, err := opened.answer(&asked)
		if err != nil {
			err = answers.Encode(refusal{Refused: nameOf(err), Text: err.Error()})
		} else {
			err = answers.Encode(answer{Answer: told})
		}
		if err != nil {
			return err
		}
	}
}

// nameOf is Kafka's name for what a broker refused, or none where the library itself did.
func nameOf(err error) string {
	var code sarama.KError
	if errors.As(err, &code) {
		err = kerr.ErrorForCode(int16(code))
	}
	var told *kerr.Error
	if errors.As(err, &told) {
		return told.Message
	}
	return ""
}
