// Asks for the fabric before the scripts that draw it have come: of a large one the server's answer
// takes longer than all of them.

let asked = /^#\/?fabric/.test(location.hash) ? fetch("/api/v1/graph") : undefined;
// An error is for the view that takes the answer.
asked?.catch(() => {});

/** The answer that the page has asked for first, once. */
export function takeAsked() {
  const answer = asked;
  asked = undefined;
  return answer;
}
