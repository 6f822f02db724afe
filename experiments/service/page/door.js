// Asks for the token, where the server needs one.

import { find } from "./elements.js";
import { hasToken, keepToken } from "./stream.js";

// Resolves to whether one was given.
export function tokenGiven() {
  const door = find("door");
  if (hasToken()) find("door-state").textContent = "The server does not accept this token. Type it again.";
  find("token").value = "";
  door.returnValue = "";
  door.showModal();
  find("token").focus();
  return new Promise((resolve) => {
    door.addEventListener("close", () => resolve(door.returnValue === "given"), { once: true });
  });
}

find("door-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(find("token").value.trim());
  find("door").close("given");
});
find("door-cancel").onclick = () => find("door").close("");
