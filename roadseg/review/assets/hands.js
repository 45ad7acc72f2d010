// Hands: what mouse, fingers and keys do to the map of the review.

class Hands extends Pointers {
  constructor(review) {
    super(review, REACH_PX);
    document.addEventListener("keydown", (event) => this.key(event));
  }

  point(place, isTouch) {
    this.map.point(isTouch ? null : place);
  }

  key(event) {
    const { map: review } = this;
    if (event.altKey || byId("help").open) return;
    if (event.target.matches("input")) {
      if (event.key === "Escape") byId("ground").focus({ preventScroll: true });
      return;
    }
    const isCommand = event.ctrlKey || event.metaKey;
    const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    let action = null;
    if (isCommand) action = { z: () => (event.shiftKey ? review.redo() : review.undo()), y: () => review.redo() }[name];
    // Enter and the space bar belong to a button that has the focus.
    else if (!(event.target.matches("button, summary, a") && [" ", "Enter"].includes(name))) action = review.actions[name];
    if (!action) return;
    event.preventDefault();
    action();
  }
}
