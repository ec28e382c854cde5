"""A picture's own cost: a service that gives its picture back, as JPEG.

trilith serve benchmarks/apps/picture.py:picture
curl --data-binary @page.jpg -H 'content-type: image/jpeg' 127.0.0.1:8000/picture -o again.jpg
"""

from __future__ import annotations

from typing import Annotated

from PIL import Image

import trilith


@trilith.service
def picture(image: Image.Image) -> Annotated[Image.Image, trilith.ContentType("image/jpeg")]:
    """The same picture."""
    return image
