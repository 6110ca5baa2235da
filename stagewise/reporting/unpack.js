"use strict";
(async () => {
  const text = (id) => new Response(new Blob([Uint8Array.from(atob(document.getElementById(id).textContent),
    (c) => c.charCodeAt(0))]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  document.querySelector("main").innerHTML = await text("packed-main");
  const code = document.createElement("script");
  code.textContent = await text("packed-script");
  document.body.append(code);
})();
